package workloads

import (
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"lab/infra"
)

// newUnits declares the demo workload as systemd units of the host with the role app,
// and sets w.Digest.
func (w *Workloads) newUnits(ctx *pulumi.Context, c Config, in *infra.Infra) error {
	host := in.ByRole(infra.RoleApp)[0]
	binary, err := infra.NewBinary(ctx, "app", host.Arch, w)
	if err != nil {
		return err
	}
	path, copied, err := binary.CopyTo(ctx, host, w)
	if err != nil {
		return err
	}
	unit, environment := text("lab-app@.service"), c.environment(appPort)
	_, err = infra.NewScript(ctx, unitsName, &infra.ScriptArgs{
		Host:   host,
		Script: text("app.sh"),
		Variables: map[string]string{
			"binary": path, "unit": unit, "environment": environment, "edge_url": w.LabURL,
		},
		Secrets:  map[string]pulumi.StringInput{"database_url": databaseURL(in), "redis_url": redisURL(in)},
		Triggers: []pulumi.StringInput{binary.SHA256},
	}, pulumi.Parent(w), pulumi.DependsOn([]pulumi.Resource{in, copied}))
	if err != nil {
		return err
	}
	w.Digest = binary.SHA256.ApplyT(func(sha256 string) string { return infra.Digest(sha256, unit, environment) }).(pulumi.StringOutput)
	return nil
}

// unitsName is one name for the units running and stopped: a resource that is taken
// away goes at the end of an update, when the load test is over, and until then two
// workloads would be at the same queue and database.
const unitsName = "app-units"

// stopUnits has the host with the role app, if there is one, run no workload.
func (w *Workloads) stopUnits(ctx *pulumi.Context, in *infra.Infra) ([]pulumi.Resource, error) {
	var stopped []pulumi.Resource
	for _, host := range in.ByRole(infra.RoleApp) {
		s, err := infra.NewScript(ctx, unitsName, &infra.ScriptArgs{Host: host, Script: text("app-stop.sh")}, pulumi.Parent(w), pulumi.DependsOn([]pulumi.Resource{in}))
		if err != nil {
			return nil, err
		}
		stopped = append(stopped, s)
	}
	return stopped, nil
}
