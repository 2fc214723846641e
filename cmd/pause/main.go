// Command pause holds the namespaces of a pod: it does nothing until it is asked to
// end. Where it is the first process of its namespace it reaps the orphans.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// Two channels: an orphan's end must not take the place of the request to end.
	end, child := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	signal.Notify(child, syscall.SIGCHLD)
	reap() // those that ended before
	for {
		select {
		case <-end:
			return
		case <-child:
			reap()
		}
	}
}

// reap takes the status of every child that has ended: one signal may stand for
// several.
func reap() {
	for {
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 && err != syscall.EINTR {
			return
		}
	}
}
