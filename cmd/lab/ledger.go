package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"lab/loadtest/ledger"
)

func newLedgerCommand() *cobra.Command {
	command := &cobra.Command{Use: "ledger", Short: "The rows measured so far"}
	command.AddCommand(&cobra.Command{
		Use:   "append FILE",
		Short: "Add the row on standard input, once a run; print the table",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var m ledger.Measured
			if err := json.NewDecoder(cmd.InOrStdin()).Decode(&m); err != nil {
				return fmt.Errorf("read the row: %w", err)
			}
			m.Row.Lab = version() // bin/pulumi builds this binary from the checkout that measures
			rows, err := ledger.AppendMeasured(args[0], m, os.Stderr)
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), ledger.Table(rows))
			return err
		},
	})
	return command
}

func newTableCommand() *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use:   "table [FILE]",
		Short: "Print the table of a ledger (default results/local.jsonl)",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := "results/local.jsonl"
			if len(args) > 0 {
				path = args[0]
			}
			rows, err := ledger.Read(path)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(rows)
			}
			cmd.Print(terminal().Plain(ledger.Table(rows)))
			return nil
		},
	}
	command.SetOut(os.Stdout)
	command.Flags().BoolVar(&asJSON, "json", false, "print the rows as JSON")
	return command
}
