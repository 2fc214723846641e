package loadtest

import (
	"github.com/pulumi/pulumi-random/sdk/v4/go/random"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"lab/infra"
	"lab/loadtest/plan"
)

// newFurther sets the further load generators up, and names them in the plan: each
// takes orders from who has the stack's secret. They need the runner, which the
// samplers' scripts install. Without any there is no secret.
func newFurther(ctx *pulumi.Context, hosts []*infra.Host, p *plan.Plan, runner pulumi.StringOutput, samplers []pulumi.Resource, t *LoadTest) (secret pulumi.StringOutput, ready []pulumi.Resource, err error) {
	if len(hosts) == 0 {
		return pulumi.String("").ToStringOutput(), nil, nil
	}
	orders, err := random.NewRandomPassword(ctx, "generator-secret", &random.RandomPasswordArgs{
		Length: pulumi.Int(40), Special: pulumi.Bool(false),
	}, pulumi.Parent(t))
	if err != nil {
		return secret, nil, err
	}
	for _, h := range hosts {
		listen := ordersAddress(h.Address)
		generator, err := infra.NewScript(ctx, h.Name+"-generator", &infra.ScriptArgs{
			Host:   h,
			Script: text("generator.sh"),
			Variables: map[string]string{
				"socket": text("lab-generator.socket"), "unit": text("lab-generator.service"),
				"listen": listen, "target": p.Target,
			},
			Secrets:  map[string]pulumi.StringInput{"secret": orders.Result},
			Triggers: []pulumi.StringInput{runner},
		}, pulumi.Parent(t), pulumi.DependsOn(samplers))
		if err != nil {
			return secret, nil, err
		}
		ready = append(ready, generator)
		p.Further = append(p.Further, plan.Further{Host: h.Name, Orders: listen})
	}
	return orders.Result, ready, nil
}
