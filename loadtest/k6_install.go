package loadtest

import (
	"fmt"

	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"lab/infra"
)

// newK6 installs the pinned k6 on the load generator.
func newK6(ctx *pulumi.Context, c K6Config, generator *infra.Host, t *LoadTest) (pulumi.Resource, error) {
	path, url, sha256 := c.from(generator.Arch)
	if sha256 == "" {
		return nil, fmt.Errorf("install k6 on %s: loadtest.k6.sha256 has no %s", generator.Name, generator.Arch)
	}
	place, waits := "", []pulumi.Resource{}
	if path != "" {
		var copied pulumi.Resource
		var err error
		if place, copied, err = infra.CopyFile(ctx, generator, "k6", pulumi.String(path).ToStringOutput(), pulumi.String(sha256).ToStringOutput(), t); err != nil {
			return nil, err
		}
		waits = append(waits, copied)
	}
	return infra.NewScript(ctx, generator.Name+"-k6", &infra.ScriptArgs{
		Host:      generator,
		Script:    text("k6.sh"),
		Variables: map[string]string{"binary": k6Binary, "version": c.Version, "sha256": sha256, "url": url, "copied": place},
	}, pulumi.Parent(t), pulumi.DependsOn(waits))
}
