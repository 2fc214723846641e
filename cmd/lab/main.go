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
	newImageCommand,
	newLedgerCommand,
	newTableCommand,
	newAnalyzeCommand,
	newKubeconfigCommand,
	newPinCommand,
	newPathCommand,
	newVersionCommand,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newRoot().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(exitStatus(err))
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "lab",
		Short: "Machines, ledger and tables of a home lab under load test",
		Long: `Machines, ledger and tables of a home lab under load test.

Exit status, of every command: 0 done, 1 it failed, 2 it was called wrongly (an
unknown command or flag, or arguments that do not fit) and did nothing.`,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	for _, c := range commands {
		root.AddCommand(c())
	}
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	strict(root)
	return root
}
