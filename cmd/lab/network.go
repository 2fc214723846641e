package main

import (
	"encoding/json"
	"os"

	"github.com/spf13/cobra"

	"lab/infra/nspawn"
)

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
		Use:    "serve FOLDER NETWORK INCARNATION FORWARDS LOCK-FD",
		Short:  "Relay loopback addresses into a network (started by up)",
		Hidden: true,
		Args:   cobra.ExactArgs(5),
		RunE: func(cmd *cobra.Command, args []string) error {
			return nspawn.Serve(cmd.Context(), args)
		},
	})
	return network
}
