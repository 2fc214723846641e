package nspawn

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lock takes an exclusive lock on path, waiting for other processes. Closing the
// file gives it back. A child that inherits the file holds the lock as well: so
// a step that outlives its killed parent isn't run into.
func lock(path string) (*os.File, error) {
	for {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, err
		}
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
		if os.IsNotExist(err) {
			continue // its folder was removed by a Down in between
		}
		if err != nil {
			return nil, err
		}
		if err := flock(f); err != nil {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		ours, errOurs := f.Stat()
		current, err := os.Stat(path)
		if errOurs == nil && err == nil && os.SameFile(ours, current) {
			return f, nil
		}
		f.Close() // a Down removed the file while we waited for it
	}
}

func flock(f *os.File) error {
	for {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != syscall.EINTR {
			return err
		}
	}
}
