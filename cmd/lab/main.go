// Command lab is the companion of the lab program: it keeps machines, the
// network and the ledger, and shows what was measured.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// commands are the constructors of the subcommands, one file each.
var commands = []func() *cobra.Command{}

func main() {
	root := &cobra.Command{
		Use:           "lab",
		Short:         "Machines, ledger and tables of a home lab under load test",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	for _, c := range commands {
		root.AddCommand(c())
	}
	if err := root.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}
