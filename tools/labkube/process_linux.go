package main

import (
	"os/exec"
	"runtime"
)

// runLocked runs a command from a thread that lives as long as it: the kernel's
// signal at the parent's death is at the death of the thread that forked
// (golang/go#27505).
func runLocked(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return cmd.Run()
}
