package remote

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/pulumi/pulumi-go-provider/infer"
	"github.com/pulumi/pulumi-go-provider/infer/types"
)

// CopyToRemote copies a file or a folder to another machine. Deleting it leaves
// the copy.
type CopyToRemote struct{}

// CopyInputs are the properties a program sets.
type CopyInputs struct {
	Connection *Connection          `pulumi:"connection" provider:"secret"`
	Source     types.AssetOrArchive `pulumi:"source"`
	RemotePath string               `pulumi:"remotePath"`
	Triggers   *[]any               `pulumi:"triggers,optional" provider:"replaceOnChanges"`
}

// CopyState is what is kept of a copy.
type CopyState struct{ CopyInputs }

// Create copies the source.
func (*CopyToRemote) Create(ctx context.Context, req infer.CreateRequest[CopyInputs]) (infer.CreateResponse[CopyState], error) {
	resp := infer.CreateResponse[CopyState]{ID: req.Name, Output: CopyState{req.Inputs}}
	if req.DryRun {
		return resp, nil
	}
	return resp, copySource(ctx, req.Inputs)
}

// Update copies the source again.
func (*CopyToRemote) Update(ctx context.Context, req infer.UpdateRequest[CopyInputs, CopyState]) (infer.UpdateResponse[CopyState], error) {
	resp := infer.UpdateResponse[CopyState]{Output: CopyState{req.Inputs}}
	if req.DryRun {
		return resp, nil
	}
	return resp, copySource(ctx, req.Inputs)
}

// copySource sends the source through one session: a file as it is, an archive
// of a folder as a tar stream.
func copySource(ctx context.Context, in CopyInputs) error {
	command, content, err := copyCommand(in)
	if err != nil {
		return fmt.Errorf("read the source of the copy to %s: %w", in.RemotePath, err)
	}
	client, err := in.Connection.dial(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	defer context.AfterFunc(ctx, func() { client.Close() })()
	session, err := client.NewSession()
	if err != nil {
		return fmt.Errorf("open a session on %s: %w", in.Connection.Host, err)
	}
	defer session.Close()
	session.Stdin = bytes.NewReader(content)
	if out, err := session.CombinedOutput(command); err != nil {
		return fmt.Errorf("copy to %s on %s: %w: %s", in.RemotePath, in.Connection.Host, err, bytes.TrimSpace(out))
	}
	return nil
}

// copyFileScript writes beside the target and renames, so that a cut connection
// leaves the old file whole and a running program can be replaced. Its input is
// $path, $base (the source's name, for a $path that is a folder) and $size.
const copyFileScript = `set -e
if [ -d "$path" ]; then path=${path%/}/${base:?is a folder, and the source has no file name}; fi
case $path in */*) mkdir -p -- "${path%/*}/" ;; esac
new=$path.new
cat >"$new"
test "$(wc -c <"$new")" -eq "$size"
if [ -e "$path" ]; then chmod --reference="$path" -- "$new"; fi
mv -f -- "$new" "$path"`

const copyFolderScript = `set -e
if [ -d "$path" ]; then path=${path%/}/$base; fi
mkdir -p -- "$path"
tar --no-same-owner -xf - -C "$path"`

// copyCommand returns the remote command and its standard input.
func copyCommand(in CopyInputs) (command string, content []byte, err error) {
	var base string
	script := copyFileScript
	switch asset, archive := in.Source.Asset, in.Source.Archive; {
	case asset != nil:
		if path, ok := asset.GetPath(); ok {
			base = filepath.Base(path)
		}
		content, err = asset.Bytes()
	case archive != nil && archive.IsPath():
		path, _ := archive.GetPath()
		base = filepath.Base(path)
		var info os.FileInfo
		if info, err = os.Stat(path); err != nil {
			return "", nil, err
		}
		if !info.IsDir() {
			content, err = os.ReadFile(path)
			break
		}
		script = copyFolderScript
		content, err = tarFolder(path)
	default:
		err = errors.New("it must be a FileAsset, a StringAsset or a FileArchive")
	}
	command = fmt.Sprintf("path=%s base=%s size=%d\n%s", quote(in.RemotePath), quote(base), len(content), script)
	return command, content, err
}

// tarFolder packs a folder with the modes of its files.
func tarFolder(path string) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := w.AddFS(os.DirFS(path)); err != nil {
		return nil, err
	}
	err := w.Close()
	return out.Bytes(), err
}

// quote makes s one word of a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
