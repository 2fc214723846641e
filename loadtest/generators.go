package loadtest

import (
	"github.com/pulumi/pulumi-random/sdk/v4/go/random"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"lab/infra"
)

// newGenerators sets the further load generators up: each takes orders from who
// has the stack's secret. They need the runner, which the samplers' scripts install.
func newGenerators(ctx *pulumi.Context, further []*infra.Host, target string, runner pulumi.StringOutput, samplers []pulumi.Resource, t *LoadTest) (secret pulumi.StringOutput, ready []pulumi.Resource, err error) {
	orders, err := random.NewRandomPassword(ctx, "generator-secret", &random.RandomPasswordArgs{
		Length: pulumi.Int(40), Special: pulumi.Bool(false),
	}, pulumi.Parent(t))
	if err != nil {
		return secret, nil, err
	}
	for _, h := range further {
		generator, err := infra.NewScript(ctx, h.Name+"-generator", &infra.ScriptArgs{
			Host:   h,
			Script: text("generator.sh"),
			Variables: map[string]string{
				"socket": text("lab-generator.socket"), "unit": text("lab-generator.service"),
				"listen": ordersAddress(h.Address), "target": target,
			},
			Secrets:  map[string]pulumi.StringInput{"secret": orders.Result},
			Triggers: []pulumi.StringInput{runner},
		}, pulumi.Parent(t), pulumi.DependsOn(samplers))
		if err != nil {
			return secret, nil, err
		}
		ready = append(ready, generator)
	}
	return orders.Result, ready, nil
}
