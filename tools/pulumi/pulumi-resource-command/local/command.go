// Package local implements command:local:Command.
package local

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/pulumi/pulumi-go-provider/infer"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"

	"lab/tools/pulumi/pulumi-resource-command/stream"
)

// Command runs a command on this machine at create, update and delete.
type Command struct{}

// Inputs are the properties a program sets.
type Inputs struct {
	Create                 *string            `pulumi:"create,optional"`
	Update                 *string            `pulumi:"update,optional"`
	Delete                 *string            `pulumi:"delete,optional"`
	Stdin                  *string            `pulumi:"stdin,optional"`
	Dir                    *string            `pulumi:"dir,optional"`
	Logging                *stream.Logging    `pulumi:"logging,optional"`
	Environment            *map[string]string `pulumi:"environment,optional"`
	Interpreter            *[]string          `pulumi:"interpreter,optional"`
	Triggers               *[]any             `pulumi:"triggers,optional" provider:"replaceOnChanges"`
	AddPreviousOutputInEnv *bool              `pulumi:"addPreviousOutputInEnv,optional"`
	AssetPaths             *[]string          `pulumi:"assetPaths,optional"`
	ArchivePaths           *[]string          `pulumi:"archivePaths,optional"`
}

// State is what is kept of a command.
type State struct {
	Inputs
	Stdout  string                      `pulumi:"stdout"`
	Stderr  string                      `pulumi:"stderr"`
	Assets  *map[string]*resource.Asset `pulumi:"assets,optional"`
	Archive *resource.Archive           `pulumi:"archive,optional"`
}

// Create runs the command `create`.
func (*Command) Create(ctx context.Context, req infer.CreateRequest[Inputs]) (infer.CreateResponse[State], error) {
	resp := infer.CreateResponse[State]{ID: req.Name, Output: State{Inputs: req.Inputs}}
	if req.DryRun {
		return resp, nil
	}
	var err error
	resp.Output, err = run(ctx, req.Inputs.Create, req.Inputs, State{})
	return resp, err
}

// Update runs `update`, or `create` when there is none.
func (*Command) Update(ctx context.Context, req infer.UpdateRequest[Inputs, State]) (infer.UpdateResponse[State], error) {
	if req.DryRun {
		req.State.Inputs = req.Inputs
		return infer.UpdateResponse[State]{Output: req.State}, nil
	}
	command := req.Inputs.Update
	if command == nil {
		command = req.Inputs.Create
	}
	out, err := run(ctx, command, req.Inputs, req.State)
	return infer.UpdateResponse[State]{Output: out}, err
}

// Delete runs the command `delete`.
func (*Command) Delete(ctx context.Context, req infer.DeleteRequest[State]) (infer.DeleteResponse, error) {
	req.State.AssetPaths, req.State.ArchivePaths = nil, nil // nothing is left to collect
	_, err := run(ctx, req.State.Delete, req.State.Inputs, req.State)
	return infer.DeleteResponse{}, err
}

// run runs one command, or none, in a process group of its own which ends with
// the operation.
func run(ctx context.Context, command *string, in Inputs, previous State) (State, error) {
	out := previous
	out.Inputs = in
	if command == nil || *command == "" {
		return out, out.collect()
	}
	argv := []string{"/bin/sh", "-c"}
	if in.Interpreter != nil && len(*in.Interpreter) > 0 {
		argv = *in.Interpreter
	}
	argv = append(append([]string{}, argv...), *command)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = os.Environ()
	if in.AddPreviousOutputInEnv == nil || *in.AddPreviousOutputInEnv {
		cmd.Env = append(cmd.Env, "PULUMI_COMMAND_STDOUT="+previous.Stdout, "PULUMI_COMMAND_STDERR="+previous.Stderr)
	}
	if in.Environment != nil {
		for k, v := range *in.Environment {
			cmd.Env = append(cmd.Env, k+"="+v)
		}
	}
	if in.Dir != nil {
		cmd.Dir = *in.Dir
	}
	if in.Stdin != nil {
		cmd.Stdin = strings.NewReader(*in.Stdin)
	}
	stdout, stderr := stream.New(ctx, in.Logging)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if err := cmd.Run(); err != nil {
		return out, fmt.Errorf("%w: running %q:\n%s\n%s", err, *command, stdout.String(), stderr.String())
	}
	out.Stdout, out.Stderr = stdout.String(), stderr.String()
	return out, out.collect()
}
