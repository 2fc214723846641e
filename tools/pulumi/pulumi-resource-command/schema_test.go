package main

import (
	"reflect"
	"testing"

	"github.com/pulumi/pulumi-command/sdk/go/command/local"
	"github.com/pulumi/pulumi-command/sdk/go/command/remote"

	"lab/tools/pulumi/schematest"
)

func TestSchemaIsTheSDKs(t *testing.T) {
	p, err := newProvider()
	if err != nil {
		t.Fatal(err)
	}
	schematest.Check(t, "command", version, p, []schematest.Resource{
		{Token: "command:local:Command", Args: local.CommandArgs{}.ElementType(), Outputs: reflect.TypeFor[local.Command]()},
		{Token: "command:remote:Command", Args: remote.CommandArgs{}.ElementType(), Outputs: reflect.TypeFor[remote.Command](), Secrets: []string{"connection"}},
		{Token: "command:remote:CopyToRemote", Args: remote.CopyToRemoteArgs{}.ElementType(), Outputs: reflect.TypeFor[remote.CopyToRemote](), Secrets: []string{"connection"}},
	})
}
