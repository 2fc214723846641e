package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pulumi/pulumi-go-provider/infer"
	"github.com/pulumi/pulumi-go-provider/infer/types"
)

// CopyToRemote copies a file to another machine. Deleting it leaves the file.
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

// Create copies the file.
func (*CopyToRemote) Create(ctx context.Context, req infer.CreateRequest[CopyInputs]) (infer.CreateResponse[CopyState], error) {
	resp := infer.CreateResponse[CopyState]{ID: req.Name, Output: CopyState{req.Inputs}}
	if req.DryRun {
		return resp, nil
	}
	return resp, copyFile(ctx, req.Inputs)
}

// Update copies the file again.
func (*CopyToRemote) Update(ctx context.Context, req infer.UpdateRequest[CopyInputs, CopyState]) (infer.UpdateResponse[CopyState], error) {
	resp := infer.UpdateResponse[CopyState]{Output: CopyState{req.Inputs}}
	if req.DryRun {
		return resp, nil
	}
	return resp, copyFile(ctx, req.Inputs)
}

// copyFile writes beside the target and renames, so that a cut connection leaves
// the old file whole and a running program can be replaced.
func copyFile(ctx context.Context, in CopyInputs) error {
	if in.Source.Asset == nil {
		return errors.New("source: an archive; this plugin copies single files")
	}
	content, err := in.Source.Asset.Bytes()
	if err != nil {
		return fmt.Errorf("read the source: %w", err)
	}
	client, err := in.Connection.dial(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	defer context.AfterFunc(ctx, func() { client.Close() })()
	session, err := client.NewSession()
	if err != nil {
		return err
	}
	defer session.Close()
	path := "'" + strings.ReplaceAll(in.RemotePath, "'", `'\''`) + "'"
	session.Stdin = bytes.NewReader(content)
	command := fmt.Sprintf(`set -e; new=%s.new; cat >"$new"; test "$(wc -c <"$new")" -eq %d; mv -f "$new" %s`, path, len(content), path)
	if out, err := session.CombinedOutput(command); err != nil {
		return fmt.Errorf("copy to %s:%s: %w: %s", in.Connection.Host, in.RemotePath, err, bytes.TrimSpace(out))
	}
	return nil
}
