package main

import (
	"encoding/json"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"lab/infra/nspawn"
)

func newMachineCommand() *cobra.Command {
	machine := &cobra.Command{Use: "machine", Short: "Local machines"}
	machine.AddCommand(&cobra.Command{
		Use:   "up",
		Short: "Make a machine, or bring it to the spec on standard input",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := stateDir()
			if err != nil {
				return err
			}
			spec, err := nspawn.Read[nspawn.MachineSpec](os.Stdin)
			if err != nil {
				return err
			}
			base, err := nspawn.BuildBase(cmd.Context(), dir, os.Stderr)
			if err != nil {
				return err
			}
			if err := nspawn.MachineUp(cmd.Context(), dir, spec, base, os.Stderr); err != nil {
				return err
			}
			return json.NewEncoder(os.Stdout).Encode(map[string]string{"name": spec.Name, "arch": runtime.GOARCH})
		},
	}, &cobra.Command{
		Use:   "down NETWORK NAME",
		Short: "End a machine and remove its disk",
		Args:  cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := stateDir()
			if err != nil {
				return err
			}
			return nspawn.MachineDown(dir, args[0], args[1])
		},
	})
	return machine
}
