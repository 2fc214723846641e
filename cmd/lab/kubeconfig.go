package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/spf13/cobra"

	"lab/atomicfile"
	"lab/kubeconfig"
)

var stackRule = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

// kubeconfigFile is where a stack's kubeconfig is.
func kubeconfigFile(stack string) (string, error) {
	if !stackRule.MatchString(stack) {
		return "", fmt.Errorf("%q is no name of a stack", stack)
	}
	dir, err := stateDir()
	return filepath.Join(dir, "kubeconfig", stack+".yaml"), err
}

func newKubeconfigCommand() *cobra.Command {
	command := &cobra.Command{Use: "kubeconfig", Short: "The way to a stack's cluster"}
	command.AddCommand(&cobra.Command{
		Use:   "write STACK",
		Short: "Keep the kubeconfig on standard input in a file of the lab's own",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := io.ReadAll(cmd.InOrStdin())
			if err != nil {
				return err
			}
			path, err := kubeconfigFile(args[0])
			if err != nil {
				return err
			}
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				return err
			}
			return atomicfile.Write(path, text, 0o600)
		},
	}, &cobra.Command{
		Use:   "remove STACK",
		Short: "Remove that file",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := kubeconfigFile(args[0])
			if err != nil {
				return err
			}
			if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil
		},
	}, newMergeCommand())
	return command
}

func newMergeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "merge STACK",
		Short: "Add the stack's context to your kubeconfig, after a backup of it",
		Long: `Add the stack's context, lab-STACK, to your kubeconfig: the first file of
KUBECONFIG, or ~/.kube/config. The file is backed up beside itself first; its
other contexts and the current one stay.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			from, err := kubeconfigFile(args[0])
			if err != nil {
				return err
			}
			lab, err := os.ReadFile(from)
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("there is no kubeconfig of the stack %s: bring its cluster up first", args[0])
			}
			if err != nil {
				return err
			}
			own, err := ownKubeconfig()
			if err != nil {
				return err
			}
			backup, err := mergeInto(own, string(lab), time.Now())
			if err != nil {
				return err
			}
			if backup != "" {
				fmt.Fprintln(cmd.ErrOrStderr(), "backed up as", backup)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "kubectl --context lab-%s\n", args[0])
			return err
		},
	}
}

// ownKubeconfig is the operator's file, where links lead: replacing a link would
// leave what it led to as it was.
func ownKubeconfig() (string, error) {
	for _, path := range filepath.SplitList(os.Getenv("KUBECONFIG")) {
		if path != "" {
			return followed(path)
		}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	return followed(filepath.Join(home, ".kube", "config"))
}

func followed(path string) (string, error) {
	to, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return path, nil
	}
	return to, err
}

// mergeInto merges a lab's kubeconfig into a file, which is copied first unless it
// is not there or nothing changes.
func mergeInto(path, lab string, now time.Time) (backup string, err error) {
	own, err := os.ReadFile(path)
	exists := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	merged, err := kubeconfig.Merge(string(own), lab)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if merged == string(own) {
		return "", nil
	}
	if exists {
		backup = path + ".before-lab-" + now.UTC().Format("20060102T150405Z")
		if err := atomicfile.Write(backup, own, 0o600); err != nil {
			return "", err
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	return backup, atomicfile.Write(path, []byte(merged), 0o600)
}
