// Command runner is the part of lab on the machines: `runner run` generates the
// load and measures, `runner generate` offers a share of it on a further host, and
// `runner sample` serves a host's counters.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"lab/loadtest/plan"
	"lab/loadtest/sample"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{Use: "runner", Short: "Generate load and measure it", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(newRunCommand(), newGenerateCommand(), newSampleCommand(), newVersionCommand())
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "runner:", err)
		os.Exit(1)
	}
}

func newRunCommand() *cobra.Command {
	var planFile, out string
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Search the ceiling of a plan's target and write the result",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := os.Open(planFile)
			if err != nil {
				return err
			}
			defer f.Close()
			p, err := plan.Read(f)
			if err != nil {
				return err
			}
			log, err := os.OpenFile(beside(out, ".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
			if err != nil {
				return fmt.Errorf("open the log: %w", err)
			}
			defer log.Close()
			return run(cmd.Context(), p, out, io.MultiWriter(log, os.Stderr))
		},
	}
	cmd.Flags().StringVar(&planFile, "plan", "plan.json", "the plan, JSON")
	cmd.Flags().StringVar(&out, "out", "result.json", "the result; it appears when the run is over, the log and a partial result beside it before")
	return cmd
}

func newSampleCommand() *cobra.Command {
	var listen, tokenFile, servicesFile string
	var reader sample.Reader
	cmd := &cobra.Command{
		Use:   "sample",
		Short: "Serve this host's counters to the load generator",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			token, err := os.ReadFile(tokenFile)
			if err != nil {
				return err
			}
			if strings.TrimSpace(string(token)) == "" {
				return fmt.Errorf("%s is empty: it must hold the token", tokenFile)
			}
			if servicesFile != "" {
				if reader.Services, err = sample.ReadServices(servicesFile); err != nil {
					return err
				}
			}
			server := &http.Server{
				Addr: listen, Handler: sample.Handler(reader, strings.TrimSpace(string(token))),
				ReadHeaderTimeout: 5 * time.Second,
			}
			go func() {
				<-cmd.Context().Done()
				_ = server.Close()
			}()
			if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&listen, "listen", ":9107", "address and port")
	cmd.Flags().StringVar(&reader.Cgroup, "cgroup", "", "folder of the host's own cgroup tree (default sys/fs/cgroup)")
	cmd.Flags().StringVar(&servicesFile, "services-file", "", "list of this host's services, JSON; mode 600 (default none)")
	cmd.Flags().StringVar(&tokenFile, "token-file", "", "file with the bearer token")
	return cmd
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the runner's module, Go version and revision",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, ok := debug.ReadBuildInfo()
			if !ok {
				return errors.New("the binary has no build information")
			}
			revision := "unknown"
			for _, s := range info.Settings {
				if s.Key == "vcs.revision" {
					revision = s.Value
				}
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "runner %s %s revision %s\n", info.Main.Version, info.GoVersion, revision)
			return err
		},
	}
}
