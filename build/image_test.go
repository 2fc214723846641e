package build

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// entries are the files of a tar, each of which must be root's and of the epoch.
func entries(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	r := tar.NewReader(bytes.NewReader(archive))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || !h.ModTime.Equal(time.Unix(0, 0)) || h.Typeflag != tar.TypeReg {
			t.Errorf("%s is of %d:%d, %v, type %c; want a file of root's of the epoch", h.Name, h.Uid, h.Gid, h.ModTime, h.Typeflag)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func archiveOf(t *testing.T, arch, content string) ([]byte, string) {
	t.Helper()
	image, err := newImage("app", arch, []byte(content))
	if err != nil {
		t.Fatal(err)
	}
	archive, digest, err := imageArchive(image, "lab.local/app", "0123456789abcdef")
	if err != nil {
		t.Fatal(err)
	}
	return archive, digest
}

// The library finds no contradiction in the archive, unpacked: every size, sum and
// type is what it is said to be.
func TestAnArchiveIsAnOCILayout(t *testing.T) {
	archive, _ := archiveOf(t, "amd64", "a program")
	dir := t.TempDir()
	for name, content := range entries(t, archive) {
		write(t, dir, name, string(content))
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
}

func decode(t *testing.T, raw []byte, into any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
}

func TestAnArchiveLeadsFromItsNameToTheProgram(t *testing.T) {
	archive, digest := archiveOf(t, "arm64", "a program")
	files := entries(t, archive)
	var index v1.IndexManifest
	decode(t, files["index.json"], &index)
	if len(index.Manifests) != 1 {
		t.Fatalf("%d manifests, want 1", len(index.Manifests))
	}
	m := index.Manifests[0]
	if m.Digest.String() != digest || m.Platform.Architecture != "arm64" || m.Platform.OS != "linux" || m.Annotations["io.containerd.image.name"] != "lab.local/app:0123456789abcdef" {
		t.Errorf("the index says %+v of %s", m, digest)
	}
	// Every blob has the name of its content, and there is no other.
	for name, content := range files {
		if hex, ok := strings.CutPrefix(name, "blobs/sha256/"); ok && hex != fmt.Sprintf("%x", sha256.Sum256(content)) {
			t.Errorf("%s has another content", name)
		}
	}
	if len(files) != 5 {
		t.Errorf("%d files, want the layout, the index, a manifest, its settings and a layer", len(files))
	}
	var manifest v1.Manifest
	decode(t, files[blob(m.Digest)], &manifest)
	var settings v1.ConfigFile
	decode(t, files[blob(manifest.Config.Digest)], &settings)
	want := v1.ConfigFile{
		Architecture: "arm64", OS: "linux", Created: v1.Time{Time: epoch},
		History: []v1.History{{Created: v1.Time{Time: epoch}, CreatedBy: "lab image app"}},
		RootFS:  settings.RootFS,
		Config:  v1.Config{Entrypoint: []string{"/app"}, User: "65532:65532", WorkingDir: "/"},
	}
	if diff := cmp.Diff(want, settings); diff != "" {
		t.Error(diff)
	}
	if len(manifest.Layers) != 1 || len(settings.RootFS.DiffIDs) != 1 {
		t.Fatalf("%d layers, %d of the settings; want 1", len(manifest.Layers), len(settings.RootFS.DiffIDs))
	}
}

func TestALayerHasTheProgramAlone(t *testing.T) {
	image, err := newImage("app", "amd64", []byte("a program"))
	if err != nil {
		t.Fatal(err)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v; want 1", len(layers), err)
	}
	unpacked, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer unpacked.Close()
	raw, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string][]byte{"app": []byte("a program")}, entries(t, raw)); diff != "" {
		t.Error(diff)
	}
	h, err := tar.NewReader(bytes.NewReader(raw)).Next()
	if err != nil || h.Mode != 0o755 {
		t.Errorf("mode %o, %v; want one that anyone can run", h.Mode, err)
	}
}

func TestTheDigestIsThatOfTheProgramAndTheArchitecture(t *testing.T) {
	archive, digest := archiveOf(t, "amd64", "a program")
	for _, row := range []struct {
		name, arch, content string
		same                bool
	}{
		{"the same again", "amd64", "a program", true},
		{"another program", "amd64", "another", false},
		{"another architecture", "arm64", "a program", false},
	} {
		a, d := archiveOf(t, row.arch, row.content)
		if (d == digest) != row.same || bytes.Equal(a, archive) != row.same {
			t.Errorf("%s: digest %s after %s, want the same: %v", row.name, d, digest, row.same)
		}
	}
}

// The same sources make the same image in another folder, and its tag is known
// before it is made.
func TestTheSameSourcesMakeTheSameImage(t *testing.T) {
	var made []Image
	for range 2 {
		root := tree(t)
		write(t, root, "app/a.go", "package main\n\nfunc main() {}\n")
		repository, tag, err := ImageReference(root, "app")
		if err != nil {
			t.Fatal(err)
		}
		image, err := MakeImage(t.Context(), root, "app", "arm64", io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if want := repository + ":" + tag; image.Reference != want || image.Path != filepath.Join(".lab", "build", "app-arm64.tar") {
			t.Errorf("%+v, want the reference %s", image, want)
		}
		raw, err := os.ReadFile(filepath.Join(root, image.Path))
		if err != nil {
			t.Fatal(err)
		}
		if image.SHA256 != fmt.Sprintf("%x", sha256.Sum256(raw)) {
			t.Error("the archive has another sum")
		}
		made = append(made, image)
	}
	if diff := cmp.Diff(made[0], made[1]); diff != "" {
		t.Error(diff)
	}
}

func TestAnImagesTagFollowsItsSources(t *testing.T) {
	root := tree(t)
	_, before, err := ImageReference(root, "app")
	if err != nil {
		t.Fatal(err)
	}
	write(t, root, "app/a.go", "package a // changed\n")
	_, after, err := ImageReference(root, "app")
	if err != nil || after == before {
		t.Errorf("the tag is %s after %s, %v; want another", after, before, err)
	}
	repository, tag, err := ImageReference(root, "pause")
	if err != nil || repository+":"+tag != "labkube.local/pause:1" {
		t.Errorf("pause is %s:%s, %v; want the one that labkube's containerd asks for", repository, tag, err)
	}
}

func TestMakeImageRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, row := range []struct{ image, arch, want string }{
		{"runner", "amd64", "[app pause]"}, {"app", "sparc", "[amd64 arm64]"},
	} {
		if _, err := MakeImage(t.Context(), t.TempDir(), row.image, row.arch, io.Discard); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("image %s for %s: %v, want %q", row.image, row.arch, err, row.want)
		}
	}
}
