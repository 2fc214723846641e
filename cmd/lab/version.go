package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// builtFrom is the commit, "+changed" where its files were; scripts/lab.sh sets it.
var builtFrom string

// version is which lab this is.
func version() string {
	info, _ := debug.ReadBuildInfo()
	return versionOf(builtFrom, info)
}

// versionOf falls back on what Go stamped, of a binary that was built otherwise.
func versionOf(builtFrom string, info *debug.BuildInfo) string {
	switch {
	case builtFrom != "":
		return builtFrom
	case info != nil && info.Main.Version != "" && info.Main.Version != "(devel)":
		return info.Main.Version
	}
	return "unknown"
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print which lab this is",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "lab %s\n", version())
			return err
		},
	}
}
