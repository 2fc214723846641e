package main

import (
	"encoding/json"
	"os"

	"github.com/spf13/cobra"

	"lab/build"
)

func newImageCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "image app|pause ARCH",
		Short: "Make the image of a program for the nodes of a cluster",
		Args: func(c *cobra.Command, args []string) error {
			if err := cobra.ExactArgs(2)(c, args); err != nil {
				return err
			}
			return build.KnownImage(args[0], args[1])
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root, err := build.Root()
			if err != nil {
				return err
			}
			image, err := build.MakeImage(cmd.Context(), root, args[0], args[1], os.Stderr)
			if err != nil {
				return err
			}
			return json.NewEncoder(os.Stdout).Encode(image)
		},
	}
}
