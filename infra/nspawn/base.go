package nspawn

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

//go:embed files/base.sh
var baseScript string

// basePackages are what the services' scripts would install on a real machine,
// so that on this one they find it there.
var basePackages = []string{
	"ca-certificates", "curl", "dbus", "iproute2", "nginx", "openssh-server", "postgresql",
	"procps", "redis-server", "systemd", "systemd-sysv", "util-linux",
}

// BuildBase builds the base tree below stateDir, unless it is there, and returns
// its digest: of the suite, the sources, the packages and the script.
func BuildBase(ctx context.Context, stateDir string, log io.Writer) (string, error) {
	suite, sources, err := distributionSources("/")
	if err != nil {
		return "", err
	}
	packages := strings.Join(basePackages, ",")
	sum := sha256.Sum256([]byte(strings.Join(append(sources, suite, packages, baseScript), "\n")))
	digest := fmt.Sprintf("%x", sum[:8])
	dir := baseDir(stateDir, digest)
	unlock, err := lock(filepath.Join(stateDir, "base", "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return digest, nil
	}
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		return "", fmt.Errorf("build the base tree: %w; run make setup", err)
	}
	building := dir + ".building"
	if err := os.RemoveAll(building); err != nil {
		return "", err
	}
	fmt.Fprintf(log, "base: building a %s tree with %d packages (once, one to three minutes)\n", suite, len(basePackages))
	start := time.Now()
	cmd := exec.CommandContext(ctx, "bash", "-c", baseScript, "base.sh", building, suite, packages)
	cmd.Stdin = strings.NewReader(strings.Join(sources, "\n") + "\n")
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build the base tree: %w\n%s", err, tail(output.String(), 20))
	}
	if err := os.Rename(building, dir); err != nil {
		return "", err
	}
	fmt.Fprintf(log, "base: built in %.0f s\n", time.Since(start).Seconds())
	return digest, nil
}

func baseDir(stateDir, digest string) string { return filepath.Join(stateDir, "base", digest) }

// lock takes an exclusive lock on path, waiting for other processes.
func lock(path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}

// tail is the last n lines of text.
func tail(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
