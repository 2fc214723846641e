package infra

import (
	"fmt"

	"github.com/pulumi/pulumi-random/sdk/v4/go/random"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
)

// Postgres is the database on its host.
type Postgres struct {
	pulumi.ResourceState
}

// newPostgres declares Postgres and sets in.Database.
func newPostgres(ctx *pulumi.Context, c Config, in *Infra) error {
	host, err := in.only(RoleDatabase)
	if err != nil {
		return err
	}
	p := &Postgres{}
	if err := ctx.RegisterComponentResource("lab:infra:Postgres", "postgres", p, pulumi.Parent(in)); err != nil {
		return fmt.Errorf("declare postgres: %w", err)
	}
	password, err := newPassword(ctx, "postgres-password", p)
	if err != nil {
		return fmt.Errorf("declare postgres: %w", err)
	}
	in.Database = DatabaseEndpoint{host, postgresPort, databaseName, databaseUser, password, c.Postgres.MaxConnections, "/var/run/postgresql", "lab_monitor"}
	if !in.Planned {
		settings, err := postgresSettings(c.Postgres, host.Address, host.MemoryMiB)
		if err != nil {
			return err
		}
		_, err = NewScript(ctx, "postgres", &ScriptArgs{
			Host:   host,
			Script: File("postgres.sh"),
			Variables: map[string]string{
				"address": host.Address, "subnet": c.Network.Subnet, "settings": settings,
				"database": databaseName, "user": databaseUser,
			},
			Secrets: map[string]pulumi.StringInput{"password": password},
		}, pulumi.Parent(p))
		if err != nil {
			return fmt.Errorf("declare postgres: %w", err)
		}
	}
	return ctx.RegisterResourceOutputs(p, pulumi.Map{"address": pulumi.String(host.Address)})
}

// newPassword is a service's password: letters and digits, so that it needs no
// quoting in a URL, in SQL or in a configuration file.
func newPassword(ctx *pulumi.Context, name string, parent pulumi.Resource) (pulumi.StringOutput, error) {
	p, err := random.NewRandomPassword(ctx, name, &random.RandomPasswordArgs{
		Length: pulumi.Int(32), Special: pulumi.Bool(false),
	}, pulumi.Parent(parent))
	if err != nil {
		return pulumi.StringOutput{}, err
	}
	return pulumi.ToSecret(p.Result).(pulumi.StringOutput), nil
}
