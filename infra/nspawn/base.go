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
	"slices"
	"strings"
	"syscall"
	"time"
)

//go:embed files/base.sh
var baseScript string

// basePackages are what the services' scripts would install on a real machine,
// so that on this one they find it there.
var basePackages = []string{
	"ca-certificates", "conntrack", "containernetworking-plugins", "curl", "dbus", "iproute2", "nftables", "nginx",
	"openssh-server", "postgresql", "procps", "redis-server", "runc", "systemd", "systemd-sysv", "util-linux",
}

// BuildBase builds the base tree below stateDir, unless it is there, and returns
// its digest: of the suite, the sources, the packages and the script.
func BuildBase(ctx context.Context, stateDir string, log io.Writer) (string, error) {
	suite, sources, err := distributionSources("/")
	if err != nil {
		return "", err
	}
	packages := strings.Join(basePackages, ",")
	sum := sha256.Sum256([]byte(strings.Join(append(slices.Clone(sources), suite, packages, baseScript), "\n")))
	digest := fmt.Sprintf("%x", sum[:8])
	dir := baseDir(stateDir, digest)
	if _, err := os.Stat(dir); err == nil {
		return digest, nil
	}
	held, err := lock(filepath.Join(stateDir, "base", "lock"))
	if err != nil {
		return "", err
	}
	defer held.Close()
	if _, err := os.Stat(dir); err == nil {
		return digest, nil
	}
	if err := require("mmdebstrap"); err != nil {
		return "", fmt.Errorf("build the base tree: %w", err)
	}
	building := dir + ".building"
	if err := removeTree(building); err != nil {
		return "", err
	}
	fmt.Fprintf(log, "base: building a %s tree with %d packages (once, one to three minutes)\n", suite, len(basePackages))
	start := time.Now()
	if err := runBaseScript(ctx, held, dir+".log", strings.Join(sources, "\n")+"\n", building, dir, suite, packages); err != nil {
		return "", fmt.Errorf("build the base tree: %w", err)
	}
	fmt.Fprintf(log, "base: built in %.0f s\n", time.Since(start).Seconds())
	return digest, nil
}

// runBaseScript runs the script in a process group of its own, which holds the
// lock: killed, we leave a build that ends by itself, and the next one waits for
// it. It writes to a file, not to a pipe that breaks with us.
func runBaseScript(ctx context.Context, held *os.File, logFile, stdin string, args ...string) error {
	output, err := os.Create(logFile)
	if err != nil {
		return err
	}
	defer output.Close()
	cmd := exec.CommandContext(ctx, "bash", append([]string{"-c", baseScript, "base.sh"}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.ExtraFiles = []*os.File{held}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w\n%s", err, fileTail(logFile, 20))
	}
	return os.Remove(logFile)
}

func baseDir(stateDir, digest string) string { return filepath.Join(stateDir, "base", digest) }

// require says which package is missing before a half-done job says it worse.
func require(programs ...string) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("local machines need root: run with sudo")
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			return fmt.Errorf("%s is not on PATH; run make setup", p)
		}
	}
	return nil
}

// fileTail is the last n lines of a file.
func fileTail(path string, n int) string {
	raw, _ := os.ReadFile(path)
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
