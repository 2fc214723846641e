// Command pulumi-resource-kubernetes is Pulumi's own Kubernetes provider, of which
// only the module can be had where its release can't.
package main

import (
	"embed"
	"log"

	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version"
)

// embedded holds what the module ships and the provider wants in it: too large to be
// kept here twice, so scripts/kubernetes-plugin.sh puts it there before a build.
//
//go:embed all:embedded
var embedded embed.FS

func main() {
	log.SetFlags(0)
	provider.Serve("kubernetes", version.Version, read("schema.json"), read("terraform-mapping.json"))
}

func read(name string) []byte {
	raw, err := embedded.ReadFile("embedded/" + name)
	if err != nil {
		log.Fatalf("%v: build this by scripts/kubernetes-plugin.sh", err)
	}
	return raw
}
