package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// ctr asks the node's containerd, in the namespace of Kubernetes' images.
func ctr(ctx context.Context, args ...string) error {
	program, err := beside("ctr")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, append([]string{"--address", containerdAt, "--namespace", "k8s.io"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ctr %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// importImages imports every archive of the node's folder images/, as k3s does.
func (c Config) importImages(ctx context.Context) error {
	if err := os.MkdirAll(c.agentDir("images"), 0o755); err != nil {
		return err
	}
	archives, err := filepath.Glob(c.agentDir("images/*.tar"))
	if err != nil {
		return err
	}
	slices.Sort(archives)
	for _, archive := range archives {
		if err := importImage(ctx, archive); err != nil {
			return err
		}
	}
	return nil
}

func importImage(ctx context.Context, archive string) error {
	return ctr(ctx, "images", "import", "--local", archive)
}

func newImportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "import ARCHIVE…",
		Short: "Give images to this node's containerd",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, archives []string) error {
			for _, archive := range archives {
				if err := importImage(cmd.Context(), archive); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
