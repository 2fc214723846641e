package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

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
		Short: "Build the base tree from this machine's apt sources, unless it is there",
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

func newNetworkCommand() *cobra.Command {
	network := &cobra.Command{Use: "network", Short: "The network of local machines"}
	network.AddCommand(&cobra.Command{
		Use:   "up",
		Short: "Make a network, or bring it to the spec on standard input",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := stateDir()
			if err != nil {
				return err
			}
			spec, err := nspawn.Read[nspawn.NetworkSpec](os.Stdin)
			if err != nil {
				return err
			}
			if err := nspawn.NetworkUp(cmd.Context(), dir, spec, os.Stderr); err != nil {
				return err
			}
			return json.NewEncoder(os.Stdout).Encode(map[string]string{"name": spec.Name})
		},
	}, &cobra.Command{
		Use:   "down NETWORK",
		Short: "Remove a network",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := stateDir()
			if err != nil {
				return err
			}
			return nspawn.NetworkDown(cmd.Context(), dir, args[0])
		},
	}, &cobra.Command{
		Use:    "serve NETWORK FORWARDS READY-FILE",
		Short:  "Relay loopback addresses into a network (started by up)",
		Hidden: true,
		Args:   cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			var forwards []nspawn.Forward
			if err := json.Unmarshal([]byte(args[1]), &forwards); err != nil {
				return fmt.Errorf("forwards: %w", err)
			}
			return nspawn.Serve(cmd.Context(), args[0], forwards, args[2])
		},
	})
	return network
}

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
