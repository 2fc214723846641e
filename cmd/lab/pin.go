package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lab/atomicfile"
	"lab/infra/k3s"
)

func newPinCommand() *cobra.Command {
	command := &cobra.Command{Use: "pin", Short: "Write down which files of a release a stack takes"}
	var from, stack string
	pin := &cobra.Command{
		Use:   "k3s VERSION --stack STACK",
		Short: "Pin a version of k3s in a stack's file, with the sums of its files",
		Long: `Pin a version of k3s in a stack's file, with the sums of its files.

The sums are read from the lists of the release, sha256sum-amd64.txt and
sha256sum-arm64.txt. Compare them with what the release's page shows.`,
		Args: func(c *cobra.Command, args []string) error {
			if err := cobra.ExactArgs(1)(c, args); err != nil {
				return err
			}
			_, err := k3s.ParseVersion(args[0])
			return err
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if !stackRule.MatchString(stack) {
				return fmt.Errorf("%q is no name of a stack", stack)
			}
			if from == "" {
				from = k3s.Releases
			}
			p, err := readPin(cmd.Context(), k3s.Expand(from, args[0], ""), args[0])
			if err != nil {
				return err
			}
			if err := pinStack("Pulumi."+stack+".yaml", p); err != nil {
				return err
			}
			for _, arch := range k3s.Archs {
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s  %s\n", p.Binary[arch], k3s.File(arch)); err != nil {
					return err
				}
			}
			return nil
		},
	}
	pin.Flags().StringVar(&from, "from", "", "folder with the lists (default: the release's)")
	pin.Flags().StringVar(&stack, "stack", "", "the stack (required)")
	if err := pin.MarkFlagRequired("stack"); err != nil {
		panic(err) // it was declared the line before
	}
	command.AddCommand(pin)
	return command
}

// readPin reads the lists of sums of a release.
func readPin(ctx context.Context, folder, version string) (k3s.Pin, error) {
	p := k3s.Pin{Version: version, Binary: map[string]string{}, Images: map[string]string{}}
	if err := checkSource(folder); err != nil {
		return p, err
	}
	for _, arch := range k3s.Archs {
		address := strings.TrimSuffix(folder, "/") + "/" + k3s.SumsFile(arch)
		list, err := download(ctx, address)
		if err != nil {
			return p, err
		}
		if p.Binary[arch], err = k3s.Sum(list, k3s.File(arch)); err != nil {
			return p, fmt.Errorf("%s: %w", address, err)
		}
		if p.Images[arch], err = k3s.Sum(list, k3s.ImagesFile(arch)); err != nil {
			return p, fmt.Errorf("%s: %w", address, err)
		}
	}
	return p, nil
}

// checkSource wants an address that nobody on the way can answer for: a sum that
// comes in the clear vouches for nothing.
func checkSource(folder string) error {
	u, err := url.Parse(folder)
	if err != nil {
		return fmt.Errorf("--from: %w", err)
	}
	ip := net.ParseIP(u.Hostname())
	if u.Scheme == "https" || u.Scheme == "http" && ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("--from %s: is not https; use an address that begins with https://", folder)
}

// download is a small text.
func download(ctx context.Context, address string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	client := &http.Client{Timeout: 30 * time.Second, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if len(via) > 5 {
			return errors.New("too many redirects")
		}
		return checkSource(r.URL.String())
	}}
	answer, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s; is there such a version?", address, answer.Status)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	return string(text), err
}

// pinStack writes a pin into a stack's file.
func pinStack(path string, p k3s.Pin) error {
	before, err := os.ReadFile(path)
	mode := fs.FileMode(0o644)
	if info, statErr := os.Stat(path); statErr == nil {
		mode = info.Mode().Perm()
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no %s here: run it in the project's folder, with --stack", path)
	}
	if err != nil {
		return err
	}
	after, err := k3s.WritePin(string(before), p)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return atomicfile.Write(path, []byte(after), mode)
}
