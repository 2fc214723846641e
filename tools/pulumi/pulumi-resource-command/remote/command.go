package remote

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pulumi/pulumi-go-provider/infer"
	"golang.org/x/crypto/ssh"

	"lab/tools/pulumi/pulumi-resource-command/stream"
)

// Command runs a command on another machine at create, update and delete.
type Command struct{}

// Inputs are the properties a program sets.
type Inputs struct {
	Connection             *Connection        `pulumi:"connection" provider:"secret"`
	Create                 *string            `pulumi:"create,optional"`
	Update                 *string            `pulumi:"update,optional"`
	Delete                 *string            `pulumi:"delete,optional"`
	Stdin                  *string            `pulumi:"stdin,optional"`
	Logging                *stream.Logging    `pulumi:"logging,optional"`
	Environment            *map[string]string `pulumi:"environment,optional"`
	Triggers               *[]any             `pulumi:"triggers,optional" provider:"replaceOnChanges"`
	AddPreviousOutputInEnv *bool              `pulumi:"addPreviousOutputInEnv,optional"`
}

// State is what is kept of a command.
type State struct {
	Inputs
	Stdout string `pulumi:"stdout"`
	Stderr string `pulumi:"stderr"`
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
		return infer.UpdateResponse[State]{Output: State{req.Inputs, req.State.Stdout, req.State.Stderr}}, nil
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
	_, err := run(ctx, req.State.Delete, req.State.Inputs, req.State)
	return infer.DeleteResponse{}, err
}

// run runs one command, or none. The error holds the command and what it
// printed, never its standard input.
func run(ctx context.Context, command *string, in Inputs, previous State) (State, error) {
	out := State{in, previous.Stdout, previous.Stderr}
	if command == nil || *command == "" {
		return out, nil
	}
	client, err := in.Connection.dial(ctx)
	if err != nil {
		return out, err
	}
	defer client.Close()
	defer context.AfterFunc(ctx, func() { client.Close() })()
	session, err := client.NewSession()
	if err != nil {
		return out, fmt.Errorf("open a session on %s: %w", in.Connection.Host, err)
	}
	defer session.Close()
	if err := setEnvironment(session, in, previous); err != nil {
		return out, err
	}
	if in.Stdin != nil {
		session.Stdin = strings.NewReader(*in.Stdin)
	}
	stdout, stderr := stream.New(ctx, in.Logging)
	session.Stdout, session.Stderr = stdout, stderr
	if err := session.Run(*command); err != nil {
		return out, fmt.Errorf("%w: running %q on %s:\n%s\n%s", err, *command, in.Connection.Host, stdout.String(), stderr.String())
	}
	out.Stdout, out.Stderr = stdout.String(), stderr.String()
	return out, nil
}

// setEnvironment sends the variables that the program asked for. The previous
// output is offered on top of them: a server that refuses it, as one without an
// AcceptEnv line does, runs the command all the same.
func setEnvironment(session *ssh.Session, in Inputs, previous State) error {
	if or(in.AddPreviousOutputInEnv, true) {
		for name, value := range map[string]string{
			"PULUMI_COMMAND_STDOUT": previous.Stdout,
			"PULUMI_COMMAND_STDERR": previous.Stderr,
		} {
			if value != "" {
				_ = session.Setenv(name, value)
			}
		}
	}
	environment := or(in.Environment, nil)
	for _, name := range slices.Sorted(maps.Keys(environment)) {
		if err := session.Setenv(name, environment[name]); err != nil {
			return fmt.Errorf("set the environment variable %s on %s: %w; allow it by AcceptEnv in its sshd_config", name, in.Connection.Host, err)
		}
	}
	return nil
}
