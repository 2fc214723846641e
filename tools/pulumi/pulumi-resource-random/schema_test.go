package main

import (
	"reflect"
	"testing"

	"github.com/pulumi/pulumi-random/sdk/v4/go/random"

	"lab/tools/pulumi/schematest"
)

func TestSchemaIsTheSDKs(t *testing.T) {
	p, err := newProvider()
	if err != nil {
		t.Fatal(err)
	}
	schematest.Check(t, "random", version, p, []schematest.Resource{
		{Token: "random:index/randomPassword:RandomPassword", Args: random.RandomPasswordArgs{}.ElementType(), Outputs: reflect.TypeFor[random.RandomPassword](), Secrets: []string{"result", "bcryptHash"}},
		{Token: "random:index/randomString:RandomString", Args: random.RandomStringArgs{}.ElementType(), Outputs: reflect.TypeFor[random.RandomString]()},
		{Token: "random:index/randomId:RandomId", Args: random.RandomIdArgs{}.ElementType(), Outputs: reflect.TypeFor[random.RandomId]()},
		{Token: "random:index/randomBytes:RandomBytes", Args: random.RandomBytesArgs{}.ElementType(), Outputs: reflect.TypeFor[random.RandomBytes](), Secrets: []string{"base64", "hex"}},
	})
}
