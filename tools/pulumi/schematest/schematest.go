// Package schematest compares the schema of a stand-in plugin with the types of
// the SDK that talks to it.
package schematest

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/blang/semver"
	provider "github.com/pulumi/pulumi-go-provider"
	"github.com/pulumi/pulumi-go-provider/integration"
)

// Resource is one resource of the SDK.
type Resource struct {
	Token string
	// Args is the type of the SDK's plain arguments, Outputs that of its resource.
	Args, Outputs reflect.Type
	Secrets       []string // outputs that the SDK keeps secret
}

type property struct {
	Type   string `json:"type"`
	Ref    string `json:"$ref"`
	Items  *property
	Secret bool
}

type object struct {
	Properties      map[string]property
	InputProperties map[string]property
	Required        []string
	RequiredInputs  []string
}

type schema struct {
	Name      string
	Version   string
	Resources map[string]object
	Types     map[string]object
}

// Check reports every difference between the plugin's schema and the SDK's types:
// a resource or property on one side only, another type, another requirement, a
// secret that is none.
func Check(t *testing.T, name, version string, p provider.Provider, resources []Resource) {
	t.Helper()
	server, err := integration.NewServer(t.Context(), name, semver.MustParse(version), integration.WithProvider(p))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := server.GetSchema(provider.GetSchemaRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var s schema
	if err := json.Unmarshal([]byte(resp.Schema), &s); err != nil {
		t.Fatal(err)
	}
	if s.Name != name || s.Version != version {
		t.Errorf("schema is of %s %s, want %s %s", s.Name, s.Version, name, version)
	}
	if len(s.Resources) != len(resources) {
		t.Errorf("%d resources, want %d", len(s.Resources), len(resources))
	}
	for _, r := range resources {
		t.Run(r.Token, func(t *testing.T) {
			got, ok := s.Resources[r.Token]
			if !ok {
				t.Fatal("not in the schema")
			}
			s.compare(t, r.Args, got.InputProperties, got.RequiredInputs)
			names(t, "outputs", r.Outputs, got.Properties)
			for _, secret := range r.Secrets {
				if !got.Properties[secret].Secret {
					t.Errorf("output %s is not secret", secret)
				}
			}
		})
	}
}

// compare checks the properties of an SDK struct, and of the structs in it.
func (s schema) compare(t *testing.T, sdk reflect.Type, got map[string]property, required []string) {
	t.Helper()
	names(t, sdk.Name(), sdk, got)
	isRequired := map[string]bool{}
	for _, name := range required {
		isRequired[name] = true
	}
	for _, field := range reflect.VisibleFields(sdk) {
		name := field.Tag.Get("pulumi")
		p, ok := got[name]
		if name == "" || !ok {
			continue
		}
		kind, optional := field.Type, false
		switch kind.Kind() {
		case reflect.Pointer:
			kind, optional = kind.Elem(), true
		case reflect.Slice, reflect.Map:
			optional = true // in these SDKs
		}
		if isRequired[name] == optional {
			t.Errorf("%s.%s: required is %t, want %t", sdk.Name(), name, isRequired[name], !optional)
		}
		if kind.Kind() == reflect.Struct {
			nested, ok := s.Types[strings.TrimPrefix(p.Ref, "#/types/")]
			if !ok {
				t.Errorf("%s.%s is %+v, want an object type", sdk.Name(), name, p)
				continue
			}
			s.compare(t, kind, nested.Properties, nested.Required)
			continue
		}
		if want := schemaType(kind); p.Type != want {
			t.Errorf("%s.%s is of type %q, want %q", sdk.Name(), name, p.Type, want)
		}
	}
}

func schemaType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "boolean"
	case reflect.Int:
		return "integer"
	case reflect.Float64:
		return "number"
	case reflect.String:
		return "string"
	case reflect.Slice:
		return "array"
	case reflect.Map:
		return "object"
	default:
		return "" // an asset or archive is a reference
	}
}

// names checks that both sides have the same properties.
func names(t *testing.T, what string, sdk reflect.Type, got map[string]property) {
	t.Helper()
	want := map[string]bool{}
	for _, field := range reflect.VisibleFields(sdk) {
		if name := field.Tag.Get("pulumi"); name != "" && len(field.Index) == 1 { // not the urn and id of every resource
			want[name] = true
			if _, ok := got[name]; !ok {
				t.Errorf("%s: %s is missing", what, name)
			}
		}
	}
	for name := range got {
		if !want[name] {
			t.Errorf("%s: the SDK has no %s", what, name)
		}
	}
}
