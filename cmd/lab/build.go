package main

import (
	"encoding/json"
	"os"

	"github.com/spf13/cobra"

	"lab/build"
)

func newBuildCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "build app|pause|runner ARCH",
		Short: "Build a static binary for the hosts",
		Args: func(c *cobra.Command, args []string) error {
			if err := cobra.ExactArgs(2)(c, args); err != nil {
				return err
			}
			return build.Known(args[0], args[1])
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root, err := build.Root()
			if err != nil {
				return err
			}
			b, err := build.Make(cmd.Context(), root, args[0], args[1], os.Stderr)
			if err != nil {
				return err
			}
			return json.NewEncoder(os.Stdout).Encode(b)
		},
	}
}
