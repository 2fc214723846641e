// Command lab is the companion of the lab program: it keeps machines, the
// network and the ledger, and shows what was measured.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// commands are the constructors of the subcommands, one file each.
var commands = []func() *cobra.Command{
	newBaseCommand,
	newNetworkCommand,
	newMachineCommand,
	newUnlockCommand,
	newBuildCommand,
	newLedgerCommand,
	newTableCommand,
	newAnalyzeCommand,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{
		Use:           "lab",
		Short:         "Machines, ledger and tables of a home lab under load test",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	for _, c := range commands {
		root.AddCommand(c())
	}
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}
