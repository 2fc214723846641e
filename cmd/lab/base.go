package main

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"lab/infra/nspawn"
)

// stateDir is the folder of the machines' state, absolute: it names the owner of
// a network on this computer.
func stateDir() (string, error) { return filepath.Abs(".lab") }

func newBaseCommand() *cobra.Command {
	base := &cobra.Command{Use: "base", Short: "The tree that local machines start from"}
	base.AddCommand(&cobra.Command{
		Use:   "build",
		Short: "Build the base tree from this machine's apt sources, once",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := stateDir()
			if err != nil {
				return err
			}
			digest, err := nspawn.BuildBase(cmd.Context(), dir, os.Stderr)
			if err != nil {
				return err
			}
			return json.NewEncoder(os.Stdout).Encode(map[string]string{"digest": digest})
		},
	})
	return base
}
