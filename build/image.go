package build

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"lab/atomicfile"
)

// ImageUser is whom the images' programs run as: a user and group of no machine.
const ImageUser = 65532

// images are the binaries that are made into images: where each is found, and its
// tag, which is its sources' digest where there is none here. Names have a
// registry's part, or containerd looks for them on the internet.
var images = map[string]struct{ repository, tag string }{
	"app":   {"lab.local/app", ""},
	"pause": {"labkube.local/pause", "1"}, // as labkube's containerd asks for it
}

// Image is the archive of an image that was made.
type Image struct {
	Path      string `json:"path"`      // of the archive, below the project's folder
	SHA256    string `json:"sha256"`    // of the archive
	Reference string `json:"reference"` // REPOSITORY:TAG, by which pods name it
	Digest    string `json:"digest"`    // sha256:… of its manifest, which is that of one architecture
}

// KnownImage says whether there is such an image for such an architecture.
func KnownImage(image, arch string) error {
	if _, ok := images[image]; !ok {
		return fmt.Errorf("no image %q: want one of %v", image, slices.Sorted(maps.Keys(images)))
	}
	return Known(image, arch)
}

// ImageReference is the repository and the tag of an image, the same for every
// architecture. It is known before the image is made: the tag follows from the
// sources, as the image does.
func ImageReference(root, image string) (repository, tag string, err error) {
	of, ok := images[image]
	if !ok {
		return "", "", fmt.Errorf("no image %q", image)
	}
	if of.tag != "" {
		return of.repository, of.tag, nil
	}
	tag, err = SourceDigest(root, image)
	return of.repository, tag, err
}

// MakeImage builds a binary and an image of it alone, as an archive that
// containerd imports. The same sources give the same bytes.
func MakeImage(ctx context.Context, root, image, arch string, log io.Writer) (Image, error) {
	if err := KnownImage(image, arch); err != nil {
		return Image{}, err
	}
	repository, tag, err := ImageReference(root, image)
	if err != nil {
		return Image{}, err
	}
	b, err := Make(ctx, root, image, arch, log)
	if err != nil {
		return Image{}, err
	}
	program, err := os.ReadFile(filepath.Join(root, b.Path))
	if err != nil {
		return Image{}, err
	}
	made, err := newImage(image, arch, program)
	if err != nil {
		return Image{}, fmt.Errorf("make the image %s for %s: %w", image, arch, err)
	}
	archive, digest, err := imageArchive(made, repository, tag)
	if err != nil {
		return Image{}, fmt.Errorf("write the image %s for %s: %w", image, arch, err)
	}
	path := filepath.Join(".lab", "build", image+"-"+arch+".tar")
	if err := atomicfile.Write(filepath.Join(root, path), archive, 0o644); err != nil {
		return Image{}, err
	}
	return Image{path, fmt.Sprintf("%x", sha256.Sum256(archive)), repository + ":" + tag, digest}, nil
}

// epoch is when everything in an image was made, whenever that was.
var epoch = time.Unix(0, 0).UTC()

// newImage is an image with one file, /PROGRAM, which it runs as ImageUser.
func newImage(program, arch string, content []byte) (v1.Image, error) {
	files, err := fileArchive([]file{{program, 0o755, content}})
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	settings, err := base.ConfigFile()
	if err != nil {
		return nil, err
	}
	settings = settings.DeepCopy()
	settings.OS, settings.Architecture, settings.Created = "linux", arch, v1.Time{Time: epoch}
	settings.Config = v1.Config{
		Entrypoint: []string{"/" + program},
		User:       fmt.Sprintf("%d:%d", ImageUser, ImageUser),
		WorkingDir: "/",
	}
	if base, err = mutate.ConfigFile(base, settings); err != nil {
		return nil, err
	}
	return mutate.Append(base, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: epoch}, CreatedBy: "lab image " + program}})
}

// imageArchive is an image as an OCI layout (https://github.com/opencontainers/image-spec)
// in a tar. Unlike in a Docker archive, its manifest is in it as it is, so that a
// node knows the image by the digest that is given here.
func imageArchive(image v1.Image, repository, tag string) (archive []byte, digest string, err error) {
	if _, err := name.NewTag(repository+":"+tag, name.StrictValidation); err != nil {
		return nil, "", err
	}
	manifest, err := image.Manifest()
	if err != nil {
		return nil, "", err
	}
	rawManifest, err := image.RawManifest()
	if err != nil {
		return nil, "", err
	}
	settings, err := image.ConfigFile()
	if err != nil {
		return nil, "", err
	}
	rawSettings, err := image.RawConfigFile()
	if err != nil {
		return nil, "", err
	}
	hash, err := image.Digest()
	if err != nil {
		return nil, "", err
	}
	index, err := json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{{
		MediaType: manifest.MediaType, Size: int64(len(rawManifest)), Digest: hash,
		Platform: &v1.Platform{OS: settings.OS, Architecture: settings.Architecture},
		// The first is what containerd calls it, the second is the layout's own.
		Annotations: map[string]string{"io.containerd.image.name": repository + ":" + tag, "org.opencontainers.image.ref.name": tag},
	}}})
	if err != nil {
		return nil, "", err
	}
	files := []file{
		{"oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{"index.json", 0o644, index},
		{blob(hash), 0o644, rawManifest},
		{blob(manifest.Config.Digest), 0o644, rawSettings},
	}
	layers, err := image.Layers()
	if err != nil {
		return nil, "", err
	}
	for _, layer := range layers {
		f, err := layerFile(layer)
		if err != nil {
			return nil, "", err
		}
		files = append(files, f)
	}
	archive, err = fileArchive(files)
	return archive, hash.String(), err
}

func blob(hash v1.Hash) string { return "blobs/" + hash.Algorithm + "/" + hash.Hex }

func layerFile(layer v1.Layer) (file, error) {
	hash, err := layer.Digest()
	if err != nil {
		return file{}, err
	}
	packed, err := layer.Compressed()
	if err != nil {
		return file{}, err
	}
	defer packed.Close()
	content, err := io.ReadAll(packed)
	return file{blob(hash), 0o644, content}, err
}

// file is one of a tar.
type file struct {
	name    string
	mode    int64
	content []byte
}

// fileArchive is a tar of root's files, all made at the epoch.
func fileArchive(files []file) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: epoch, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil { // it writes the end
		return nil, err
	}
	return out.Bytes(), nil
}
