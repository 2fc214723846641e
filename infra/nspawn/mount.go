package nspawn

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// mountDisk mounts the machine's disk: the base tree below, its own files above.
func mountDisk(dir, base string) (root string, err error) {
	root = filepath.Join(dir, "root")
	upper, work := filepath.Join(dir, "upper"), filepath.Join(dir, "work")
	if strings.ContainsAny(dir+base, ":,\\") {
		return "", fmt.Errorf("its disk at %s: an overlay can't have a colon, a comma or a backslash in its path; move the checkout", dir)
	}
	for _, d := range []string{root, upper, work} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return "", err
		}
	}
	if err := unmount(root); err != nil { // of a run that was cut
		return "", err
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", base, upper, work)
	if err := syscall.Mount("overlay", root, "overlay", 0, options); err != nil {
		return "", fmt.Errorf("mount its disk at %s: %w; the filesystem of %s must carry an overlay (ext4, xfs, btrfs and tmpfs do, another overlay and network shares don't): move the checkout", root, err, dir)
	}
	return root, nil
}

func unmount(path string) error {
	for {
		err := syscall.Unmount(path, unix.UMOUNT_NOFOLLOW)
		switch {
		case err == nil:
			continue // there may be more than one, one over the other
		case errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENOENT):
			return nil
		case errors.Is(err, syscall.EBUSY):
			return syscall.Unmount(path, syscall.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		default:
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
}

// removeTree removes a folder, after everything that is mounted in it: a build
// that was killed leaves the computer's own /dev and /sys there.
func removeTree(dir string) error {
	mounts, err := mountsBelow(dir, "/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for _, m := range mounts {
		if err := unmount(m); err != nil {
			return err
		}
	}
	if mounts, err = mountsBelow(dir, "/proc/self/mountinfo"); err != nil {
		return err
	}
	if len(mounts) > 0 {
		return fmt.Errorf("remove %s: %s is still mounted", dir, mounts[0])
	}
	return os.RemoveAll(dir)
}

// mountsBelow lists the mount points in dir, the newest first.
func mountsBelow(dir, mountinfo string) ([]string, error) {
	f, err := os.Open(mountinfo)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var found []string
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		point := unescape.Replace(fields[4])
		if point == dir || strings.HasPrefix(point, dir+"/") {
			found = append(found, point)
		}
	}
	slices.Reverse(found)
	return found, lines.Err()
}
