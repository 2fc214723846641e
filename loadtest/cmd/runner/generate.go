package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lab/loadtest/orders"
)

func newGenerateCommand() *cobra.Command {
	var listen, secretFile, target string
	cmd := &cobra.Command{
		Use:   "generate",
		Short: "Generate a share of the load, as another generator orders",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			secret, err := readSecret(secretFile)
			if err != nil {
				return err
			}
			listener, err := listenOrders(listen)
			if err != nil {
				return err
			}
			return serveOrders(cmd.Context(), listener, orders.NewServer(target, secret, processCPUSeconds))
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "", "address and port (default the socket that systemd hands over)")
	cmd.Flags().StringVar(&secretFile, "secret-file", "", "file with the secret that orders bear; mode 600")
	cmd.Flags().StringVar(&target, "target", "", "the only target that is ever loaded, a base URL")
	_ = cmd.MarkFlagRequired("secret-file") // they exist: the lines above
	_ = cmd.MarkFlagRequired("target")
	return cmd
}

// readSecret reads a secret from a file that nobody else may read.
func readSecret(file string) (string, error) {
	info, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s has mode %o: others may read the secret; chmod 600 it", file, info.Mode().Perm())
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	secret := strings.TrimSpace(string(raw))
	if secret == "" {
		return "", fmt.Errorf("%s is empty: it must hold the secret", file)
	}
	return secret, nil
}

// firstSocket is the descriptor of the first socket that systemd hands over:
// sd_listen_fds(3).
const firstSocket = 3

// listenOrders listens on address, or on systemd's socket when there is none.
func listenOrders(address string) (net.Listener, error) {
	if address != "" {
		return net.Listen("tcp", address)
	}
	if os.Getenv("LISTEN_PID") != strconv.Itoa(os.Getpid()) || os.Getenv("LISTEN_FDS") != "1" {
		return nil, errors.New("systemd handed no socket over: start lab-generator.socket, or use --listen HOST:PORT")
	}
	f := os.NewFile(firstSocket, "orders")
	defer f.Close()
	return net.FileListener(f)
}

// serveOrders takes orders until the run is over, or none come any more: the
// process is there only while it is needed.
func serveOrders(ctx context.Context, listener net.Listener, s *orders.Server) error {
	server := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 5 * time.Second}
	go func() {
		s.Wait(ctx, orders.IdleAfter)
		if ctx.Err() != nil { // a step is cut
			_ = server.Close()
			return
		}
		answered, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = server.Shutdown(answered) // who ordered the end gets its answer
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
