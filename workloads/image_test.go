package workloads

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"lab/infra"
)

// imageMocks answers for `lab image` too, with the digests of its architectures.
type imageMocks struct {
	mocks
	digests map[string]string
	omits   bool // what commands print
}

func (m *imageMocks) NewResource(args pulumi.MockResourceArgs) (string, resource.PropertyMap, error) {
	id, out, err := m.mocks.NewResource(args)
	if arch, ok := strings.CutPrefix(args.Name, "image-"); ok && args.TypeToken == "command:local:Command" && !m.preview {
		out["stdout"] = resource.NewProperty(fmt.Sprintf(`{"path":".lab/build/app-%s.tar","sha256":"sum of %[2]s","reference":"lab.local/app:t","digest":%[2]q}`, arch, m.digests[arch]))
	}
	if m.omits {
		delete(out, "stdout")
	}
	return id, out, err
}

// declareImage has the machines of the stack local be nodes, the first two of them
// of the architectures given.
func declareImage(t *testing.T, distribution string, m *imageMocks, archs ...string) (*Image, string) {
	t.Helper()
	var image *Image
	digest := onLocal(t, m, m.preview, func(ctx *pulumi.Context, in *infra.Infra) (digest pulumi.StringOutput, err error) {
		nodes := in.Hosts[:len(archs)]
		for i, arch := range archs {
			nodes[i].Arch = arch
		}
		if image, err = NewImage(ctx, "image", &ImageArgs{Nodes: nodes, Distribution: distribution, Cluster: in}); err != nil {
			return digest, err
		}
		return image.Digest, nil
	})
	return image, digest
}

func TestEveryNodeGetsTheImageOfItsArchitecture(t *testing.T) {
	preview, up := &imageMocks{mocks: mocks{preview: true}}, &imageMocks{digests: map[string]string{"amd64": "sha256:a", "arm64": "sha256:b"}}
	declareImage(t, "k3s", preview, "arm64", "amd64", "arm64")
	image, _ := declareImage(t, "k3s", up, "arm64", "amd64", "arm64")
	if diff := cmp.Diff([]string{"arm64", "amd64"}, image.Archs); diff != "" {
		t.Error(diff)
	}
	want := strings.Join([]string{
		"command:local:Command image-amd64", "command:local:Command image-arm64",
		"command:remote:Command app-image", "command:remote:Command cache-image", "command:remote:Command database-image",
		"command:remote:CopyToRemote app-image-app", "command:remote:CopyToRemote cache-image-app", "command:remote:CopyToRemote database-image-app",
	}, "\n")
	for name, m := range map[string]*imageMocks{"preview": preview, "update": up} {
		var got []string
		for _, d := range m.declared {
			if strings.Contains(d.RegisterRPC.GetParent(), "lab:workloads:Image") {
				got = append(got, d.TypeToken+" "+d.Name)
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, strings.Join(got, "\n")); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	for node, archive := range map[string]string{"app": ".lab/build/app-arm64.tar", "database": ".lab/build/app-amd64.tar", "cache": ".lab/build/app-arm64.tar"} {
		if got := up.find(t, node+"-image-app").Inputs["source"].AssetValue().Path; got != archive {
			t.Errorf("%s gets %s, want %s", node, got, archive)
		}
	}
	script := up.find(t, "database-image")
	if waits := strings.Join(script.RegisterRPC.GetDependencies(), "\n"); !strings.Contains(waits, "::postgres") || !strings.Contains(waits, "::database-image-app") {
		t.Errorf("a node imports after %s; want its cluster and its copy of the archive among them", waits)
	}
	stdin := script.Inputs["stdin"].SecretValue().Element.StringValue()
	for _, want := range []string{"archive='/var/tmp/lab-image-app'", "distribution='k3s'", "reference='" + image.Repository + ":" + image.Tag + "'"} {
		if !strings.Contains(stdin, want) {
			t.Errorf("the script does not get %s", want)
		}
	}
}

func TestTheImagesNameIsKnownInThePreviewAndNotMadeOfOneArchitecture(t *testing.T) {
	one, _ := declareImage(t, "labkube", &imageMocks{mocks: mocks{preview: true}}, "amd64")
	two, _ := declareImage(t, "labkube", &imageMocks{mocks: mocks{preview: true}}, "arm64", "amd64")
	if one.Repository != "lab.local/app" || len(one.Tag) != 16 || one.Tag != two.Tag {
		t.Errorf("the image is %s:%s, then %s:%s; want one name of lab.local/app", one.Repository, one.Tag, two.Repository, two.Tag)
	}
}

func TestTheImagesDigestAndTriggersChangeWithWhatItHolds(t *testing.T) {
	look := func(digests map[string]string) (digest, triggers string) {
		m := &imageMocks{digests: digests}
		_, digest = declareImage(t, "k3s", m, "amd64", "arm64")
		return digest, fmt.Sprint(m.find(t, "database-image").Inputs["triggers"])
	}
	digest, triggers := look(map[string]string{"amd64": "sha256:a", "arm64": "sha256:b"})
	if again, same := look(map[string]string{"amd64": "sha256:a", "arm64": "sha256:b"}); again != digest || same != triggers || digest == "" {
		t.Errorf("nothing changed, but %s became %s, %s became %s", digest, again, triggers, same)
	}
	if d, tr := look(map[string]string{"amd64": "sha256:a", "arm64": "sha256:c"}); d == digest || tr == triggers {
		t.Errorf("one architecture's changed; digest changed: %v, triggers changed: %v; want both", d != digest, tr != triggers)
	}
}

func TestAnUpdateWhoseMockOmitsTheImagesOutputsDoesNotFail(t *testing.T) {
	declareImage(t, "k3s", &imageMocks{omits: true}, "amd64")
}
