package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
)

// backendLock is the content of a lock file of Pulumi's file backend.
type backendLock struct {
	PID      int    `json:"pid"`
	Hostname string `json:"hostname"`
}

func newUnlockCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "unlock FOLDER",
		Short: "Remove the locks that killed pulumi processes left in a file backend",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			host, err := os.Hostname()
			if err != nil {
				return err
			}
			return unlock(args[0], host, processExists)
		},
	}
}

// unlock removes the locks of processes of this host that are gone.
func unlock(folder, host string, exists func(pid int) bool) error {
	locks := filepath.Join(folder, ".pulumi", "locks")
	err := filepath.WalkDir(locks, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".json" {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var l backendLock
		if err := json.Unmarshal(raw, &l); err != nil {
			return nil // not a lock as we know it: pulumi will say what it is
		}
		if l.PID == 0 || l.Hostname != host || exists(l.PID) {
			return nil
		}
		fmt.Fprintf(os.Stderr, "the last pulumi (process %d) was killed; removing its lock\n", l.PID)
		return os.Remove(path)
	})
	if os.IsNotExist(err) {
		return nil
	}
	return err
}

func processExists(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || err == syscall.EPERM
}
