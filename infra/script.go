package infra

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pulumi/pulumi-command/sdk/go/command/remote"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
)

// defaultScriptTimeout is patient: a host capped at a fifth of a CPU is slow.
const defaultScriptTimeout = 300 * time.Second

// ScriptArgs are the inputs of a script.
type ScriptArgs struct {
	Host *Host
	// Script is bash that may use what files/lib.sh offers. It must be idempotent
	// and end in a ready-check that fails.
	Script string
	// Variables are set in the script. A changed one runs it again.
	Variables map[string]string
	// Secrets are variables that no diff, log or error shows.
	Secrets map[string]pulumi.StringInput
	// Triggers are digests of what else the script uses, such as a binary's.
	Triggers []pulumi.StringInput
	// Timeout ends the script on the host; 0 means 300 s.
	Timeout time.Duration
	// Undo tells that the script can undo its work: it is run once more, with
	// lab_undo set, when the resource is deleted. What changes runs it again in
	// place, as a replacement would undo too: only another disk replaces it, with
	// which, by DeletedWith, the undoing is left out.
	Undo bool
}

// NewScript runs a script on a host by SSH: the one way to do so. The script and
// its variables go by standard input, so that neither the host's process list
// nor an error shows a secret. It waits for the host's machine; give its parent
// and what else it depends on as options.
func NewScript(ctx *pulumi.Context, name string, args *ScriptArgs, opts ...pulumi.ResourceOption) (*remote.Command, error) {
	if err := checkVariables(args.Variables, slices.Sorted(maps.Keys(args.Secrets))); err != nil {
		return nil, fmt.Errorf("script %s on %s: %w", name, args.Host.Name, err)
	}
	timeout := args.Timeout
	if timeout == 0 {
		timeout = defaultScriptTimeout
	}
	secrets := pulumi.StringMap{}
	for k, v := range args.Secrets {
		secrets[k] = v
	}
	triggers := pulumi.Array{args.Host.identity}
	var undo pulumi.StringPtrInput
	if args.Undo {
		undo = pulumi.String(undoCommand(timeout))
		triggers = pulumi.Array{args.Host.disk}
		secrets["lab_triggers"] = pulumi.StringArray(args.Triggers).ToStringArrayOutput().ApplyT(func(resolved []string) string { return Digest(resolved) }).(pulumi.StringOutput)
		opts = append(opts, pulumi.DeleteBeforeReplace(true))
	} else {
		triggers = append(triggers, pulumi.String(Digest(args.Script, args.Variables)))
		for _, t := range args.Triggers {
			triggers = append(triggers, t)
		}
	}
	stdin := secrets.ToStringMapOutput().ApplyT(func(resolved map[string]string) string {
		return scriptStdin(name, timeout, args.Script, args.Variables, resolved)
	}).(pulumi.StringOutput)
	command := scriptCommand(timeout)
	return remote.NewCommand(ctx, name, &remote.CommandArgs{
		Connection: args.Host.Connection,
		Create:     pulumi.String(command),
		Update:     pulumi.String(command),
		Delete:     undo,
		Stdin:      pulumi.ToSecret(stdin).(pulumi.StringOutput),
		Logging:    remote.LoggingStderr,
		Triggers:   triggers,
	}, append([]pulumi.ResourceOption{pulumi.DependsOn(args.Host.machine)}, opts...)...)
}
