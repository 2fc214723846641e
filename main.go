// Command lab is a Pulumi program that declares a home lab, load-tests it to
// saturation and exports the ceiling it measured and the wall it hit.
package main

import (
	"fmt"
	"os"

	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"lab/build"
	"lab/config"
	"lab/infra"
	"lab/loadtest"
	"lab/workloads"
)

func main() { pulumi.Run(run) }

// run declares the stages of the stack, top to bottom.
func run(ctx *pulumi.Context) error {
	c, err := load(ctx.Stack(), os.Getenv("PULUMI_CONFIG"))
	if err != nil {
		return err
	}
	machines, err := infra.New(ctx, c.infra, c.workloads.NodePort)
	if err != nil || machines.Planned {
		return err
	}
	workload, err := workloads.New(ctx, c.workloads, machines)
	if err != nil {
		return err
	}
	test, err := loadtest.New(ctx, c.loadtest, machines, workload)
	if err != nil {
		return err
	}
	ctx.Export("ceiling", test.Ceiling)
	ctx.Export("ceilingStatus", test.CeilingStatus)
	ctx.Export("wall", test.Wall)
	ctx.Export("sloCapacity", test.SLOCapacity)
	ctx.Export("result", test.Result)
	ctx.Export("table", test.Table)
	ctx.Export("endpoints", pulumi.StringMap{
		"url":      pulumi.String(workload.URL),
		"lab":      pulumi.String(workload.LabURL),
		"database": pulumi.Sprintf("%s:%d", machines.Database.Host.Address, machines.Database.Port),
		"cache":    pulumi.Sprintf("%s:%d", machines.Cache.Host.Address, machines.Cache.Port),
	})
	ctx.Export("path", machines.Way(workload.LabURL, c.workloads.ReadyPath()))
	ctx.Export("databasePassword", machines.Database.Password)
	if machines.Cluster != nil {
		ctx.Export("kubeconfig", machines.Cluster.Kubeconfig)
	}
	ctx.Export("inputsDigest", test.InputsDigest)
	return nil
}

// sections are the parts of the configuration, one a stage.
type sections struct {
	infra     infra.Config
	workloads workloads.Config
	loadtest  loadtest.Config
}

// load reads the whole configuration and reports all that is wrong with it
// before anything is declared.
func load(stack, pulumiConfig string) (sections, error) {
	var c sections
	folder, err := build.Root()
	if err != nil {
		return c, err
	}
	raw, problems := config.Sections("lab", pulumiConfig, "infra", "workloads", "loadtest")
	var more []config.Problem
	c.infra, more = infra.LoadConfig(raw["infra"])
	problems = append(problems, more...)
	c.workloads, more = workloads.LoadConfig(raw["workloads"], workloads.Lab{
		MaxConnections: c.infra.Postgres.MaxConnections, Cluster: c.infra.HasCluster(), Subnet: c.infra.Network.Subnet,
		NodeCPUMilli: c.infra.SmallestNodeCPUMilli(), Folder: folder,
	})
	problems = append(problems, more...)
	c.loadtest, more = loadtest.LoadConfig(raw["loadtest"], loadtest.Lab{
		Generators: c.infra.Generators(), Single: c.infra.HasRole(infra.RoleApp) && c.infra.HasRole(infra.RoleServer),
	})
	return c, config.Error(append(problems, more...), fmt.Sprintf("Pulumi.%s.yaml", stack))
}
