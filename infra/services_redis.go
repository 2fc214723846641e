package infra

import (
	"fmt"

	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
)

// Redis is the cache and queue on its host.
type Redis struct {
	pulumi.ResourceState
}

// newRedis declares Redis and sets in.Cache.
func newRedis(ctx *pulumi.Context, c Config, in *Infra) error {
	host, err := in.only(RoleCache)
	if err != nil {
		return err
	}
	r := &Redis{}
	if err := ctx.RegisterComponentResource("lab:infra:Redis", "redis", r, pulumi.Parent(in)); err != nil {
		return fmt.Errorf("declare redis: %w", err)
	}
	password, err := newPassword(ctx, "redis-password", r)
	if err != nil {
		return fmt.Errorf("declare redis: %w", err)
	}
	in.Cache = CacheEndpoint{host, redisPort, password}
	if !in.Planned {
		settings, err := redisSettings(c.Redis, host.Address, host.MemoryMiB)
		if err != nil {
			return err
		}
		_, err = NewScript(ctx, "redis", &ScriptArgs{
			Host:      host,
			Script:    File("redis.sh"),
			Variables: map[string]string{"address": host.Address, "settings": settings},
			Secrets:   map[string]pulumi.StringInput{"password": password},
		}, pulumi.Parent(r))
		if err != nil {
			return fmt.Errorf("declare redis: %w", err)
		}
	}
	return ctx.RegisterResourceOutputs(r, pulumi.Map{"address": pulumi.String(host.Address)})
}
