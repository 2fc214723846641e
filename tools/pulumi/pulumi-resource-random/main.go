// Command pulumi-resource-random serves, for machines where the official plugin
// can't be had, the resources of the package "random" that make secrets:
// RandomPassword, RandomString, RandomId and RandomBytes.
package main

import (
	"context"
	"fmt"
	"os"

	provider "github.com/pulumi/pulumi-go-provider"
	"github.com/pulumi/pulumi-go-provider/infer"
)

// version is that of the SDK whose schema this plugin serves.
const version = "4.18.2"

func main() {
	p, err := newProvider()
	if err == nil {
		err = provider.RunProvider(context.Background(), "random", version, p)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pulumi-resource-random:", err)
		os.Exit(1)
	}
}

func newProvider() (provider.Provider, error) {
	return infer.NewProviderBuilder().WithResources(
		infer.Resource(&Password{}),
		infer.Resource(&String{}),
		infer.Resource(&ID{}),
		infer.Resource(&Bytes{}),
	).Build()
}
