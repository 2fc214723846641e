// Command pulumi-resource-command serves the package "command" for machines
// where the official plugin can't be had: local:Command, remote:Command and
// remote:CopyToRemote under the official tokens, with their properties and
// lifecycle.
package main

import (
	"context"
	"fmt"
	"os"

	provider "github.com/pulumi/pulumi-go-provider"
	"github.com/pulumi/pulumi-go-provider/infer"

	"lab/tools/pulumi/pulumi-resource-command/local"
	"lab/tools/pulumi/pulumi-resource-command/remote"
)

// version is that of the SDK whose schema this plugin serves.
const version = "1.2.1"

func main() {
	p, err := newProvider()
	if err == nil {
		err = provider.RunProvider(context.Background(), "command", version, p)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pulumi-resource-command:", err)
		os.Exit(1)
	}
}

func newProvider() (provider.Provider, error) {
	return infer.NewProviderBuilder().WithResources(
		infer.Resource(&local.Command{}),
		infer.Resource(&remote.Command{}),
		infer.Resource(&remote.CopyToRemote{}),
	).Build()
}
