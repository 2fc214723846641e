package nspawn

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"lab/atomicfile"
)

// TestMain lets the test binary be the lab program: NetworkUp starts itself as
// the forwarder, and the tests start, watch and kill it like Pulumi does.
func TestMain(m *testing.M) {
	if len(os.Args) < 3 || strings.HasPrefix(os.Args[1], "-") {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := asLab(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func asLab(ctx context.Context, args []string) error {
	switch args[0] + " " + args[1] {
	case "network serve":
		return Serve(ctx, args[2:])
	case "network up":
		spec, err := Read[NetworkSpec](os.Stdin)
		if err != nil {
			return err
		}
		return NetworkUp(ctx, args[2], spec, os.Stderr)
	case "machine up":
		spec, err := Read[MachineSpec](os.Stdin)
		if err != nil {
			return err
		}
		return MachineUp(ctx, args[2], spec, args[3], os.Stderr)
	}
	return fmt.Errorf("unknown command %q", args)
}

const testNetwork = "lab-nspawn-test"

// bench is a state folder with the repository's base tree, a network's spec and
// an operator's key.
type bench struct {
	t              *testing.T
	stateDir, base string
	network        NetworkSpec
	operator       ssh.Signer
	authorizedKey  string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("local machines need root: run the tests as root (sudo make test)")
	}
	shared, err := filepath.Abs("../../.lab")
	if err != nil {
		t.Fatal(err)
	}
	base, err := BuildBase(t.Context(), shared, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, stateDir: filepath.Join(t.TempDir(), ".lab"), base: base}
	if err := os.Mkdir(b.stateDir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(shared, "base"), filepath.Join(b.stateDir, "base")); err != nil {
		t.Fatal(err)
	}
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	if b.operator, err = ssh.NewSignerFromKey(private); err != nil {
		t.Fatal(err)
	}
	b.authorizedKey = string(ssh.MarshalAuthorizedKey(b.operator.PublicKey()))
	b.network = NetworkSpec{
		Name: testNetwork, Subnet: "10.83.0.0/24", Gateway: "10.83.0.1", Incarnation: 1,
		Forwards: []Forward{{"127.83.0.11:10022", "10.83.0.11:22"}, {"127.83.0.12:10022", "10.83.0.12:22"}},
	}
	t.Cleanup(func() {
		if err := NetworkDown(context.Background(), b.stateDir, testNetwork); err != nil {
			t.Errorf("network down: %v", err)
		}
	})
	return b
}

// machine is the spec of machine "one" or "two".
func (b *bench) machine(name string) MachineSpec {
	last := map[string]string{"one": "11", "two": "12"}[name]
	return MachineSpec{
		Network: testNetwork, Name: name, Address: "10.83.0." + last + "/24", CPUs: 0.5, MemoryMiB: 256, AuthorizedKey: b.authorizedKey,
		HostKeySeed: base64.StdEncoding.EncodeToString(bytes.Repeat([]byte(last[1:]), 32)),
		Hosts:       map[string]string{"one": "10.83.0.11", "two": "10.83.0.12"}, Incarnation: 1,
	}
}

// command is this binary as the lab program, with spec on its standard input.
func (b *bench) command(spec any, args ...string) *exec.Cmd {
	b.t.Helper()
	raw, err := json.Marshal(spec)
	if err != nil {
		b.t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Stdin = bytes.NewReader(raw)
	return cmd
}

// lab runs a command like Pulumi does: until its output's pipes are closed.
func (b *bench) lab(spec any, args ...string) string {
	b.t.Helper()
	cmd := b.command(spec, args...)
	cmd.WaitDelay = 2 * time.Second // what it starts must not keep the pipes
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.t.Fatalf("lab %v: %v\n%s", args, err, out)
	}
	b.t.Log(strings.TrimSpace(string(out)))
	return string(out)
}

func (b *bench) up(spec MachineSpec) string {
	b.t.Helper()
	return b.lab(spec, "machine", "up", b.stateDir, b.base)
}

// ssh runs a script on a machine, through its loopback address and with its key
// pinned.
func (b *bench) ssh(spec MachineSpec, script string) (string, error) {
	key, err := publicKey(spec)
	if err != nil {
		return "", err
	}
	address := "127." + strings.TrimPrefix(spec.ip(), "10.") + ":10022"
	client, err := ssh.Dial("tcp", address, &ssh.ClientConfig{
		User: "root", Auth: []ssh.AuthMethod{ssh.PublicKeys(b.operator)}, HostKeyCallback: ssh.FixedHostKey(key), Timeout: 20 * time.Second,
	})
	if err != nil {
		return "", err
	}
	defer client.Close()
	session, err := client.NewSession()
	if err != nil {
		return "", err
	}
	defer session.Close()
	out, err := session.CombinedOutput(script)
	return strings.TrimSpace(string(out)), err
}

// check runs a script on a machine and compares what it prints.
func (b *bench) check(what string, spec MachineSpec, script, want string) {
	b.t.Helper()
	if got, err := b.ssh(spec, script); err != nil || got != want {
		b.t.Errorf("%s: got %q, %v; want %q", what, got, err, want)
	}
}

func (b *bench) recorded(name string) record {
	b.t.Helper()
	r, err := readRecord(filepath.Join(machineDir(b.stateDir, testNetwork, name), recordFile))
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// until waits for a condition that another process brings about.
func (b *bench) until(what string, holds func() bool) {
	b.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(30 * time.Second)
	for !holds() {
		select {
		case <-tick.C:
		case <-timeout:
			b.t.Fatalf("%s: not within 30 s", what)
		}
	}
}

// capsScript prints what the sampler in a machine reads; see the package's doc.
const capsScript = `cd /sys/fs/cgroup
if [ -e cpu.max ]; then cat cpu.max memory.max; test -r cpu.pressure; exit; fi
echo "$(cat cpu/cpu.cfs_quota_us) $(cat cpu/cpu.cfs_period_us)"; cat memory/memory.limit_in_bytes
test "$(cat cpuacct/cpuacct.usage)" -gt 0 && test "$(cat memory/memory.usage_in_bytes)" -gt 0
grep -q ^nr_throttled cpu/cpu.stat && grep -q '^oom_kill ' memory/memory.oom_control`

// TestMachines walks two machines from nothing to nothing. The phases depend on
// each other, so they are one test.
func TestMachines(t *testing.T) {
	b := newBench(t)
	one, two := b.machine("one"), b.machine("two")

	b.lab(b.network, "network", "up", b.stateDir)
	begin := time.Now()
	booted := make(chan error, 1)
	second := b.command(two, "machine", "up", b.stateDir, b.base)
	go func() { booted <- second.Run() }()
	if out := b.up(one); !strings.Contains(out, "machine one: booted in ") {
		t.Errorf("progress: %q", out)
	}
	if err := <-booted; err != nil {
		t.Fatalf("machine two: %v", err)
	}
	t.Logf("two machines: %.1f s", time.Since(begin).Seconds())

	b.check("systemd and the name", one, "hostname; systemctl is-system-running", "one\nrunning")
	b.check("the caps as a machine sees them", one, capsScript, "25000 50000\n268435456")
	b.check("a peer by its name", one, "exec 3<>/dev/tcp/two/22; head -c 8 <&3", "SSH-2.0-")
	b.check("no way out", one, "ip route show default; ip -6 route show default", "")

	live := one
	live.CPUs, live.MemoryMiB = 0.25, 128
	before := b.recorded("one").Process
	b.up(live)
	b.check("new caps on the running machine", one, capsScript, "12500 50000\n134217728")
	if after := b.recorded("one").Process; after != before {
		t.Errorf("new caps restarted the machine: %v, was %v", after, before)
	}

	b.foreignLab(one)
	b.death(one)
	b.killedUp(two)
	b.forwarder()

	begin = time.Now()
	for _, name := range []string{"one", "two", "two"} {
		if err := MachineDown(b.stateDir, testNetwork, name); err != nil {
			t.Errorf("machine down %s: %v", name, err)
		}
	}
	for range 2 {
		if err := NetworkDown(t.Context(), b.stateDir, testNetwork); err != nil {
			t.Errorf("network down: %v", err)
		}
	}
	t.Logf("down: %.1f s", time.Since(begin).Seconds())
	for _, left := range leftovers(b.stateDir) {
		t.Errorf("left behind: %s", left)
	}
}

// foreignLab: another checkout must not touch what runs under the name.
func (b *bench) foreignLab(spec MachineSpec) {
	b.t.Helper()
	other := filepath.Join(b.t.TempDir(), ".lab")
	err := MachineUp(b.t.Context(), other, spec, b.base, os.Stderr)
	want := "network " + testNetwork + " is in use by the lab in " + filepath.Dir(b.stateDir) + "; run make down there "
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		b.t.Errorf("up from another checkout: %v; want %q", err, want)
	}
	if err := MachineDown(other, testNetwork, spec.Name); err != nil {
		b.t.Errorf("down from another checkout: %v", err)
	}
	if err := NetworkDown(b.t.Context(), other, testNetwork); err != nil {
		b.t.Errorf("network down from another checkout: %v", err)
	}
	b.check("the machine after another checkout's down", spec, "echo here", "here")
}

// death: a dead machine is seen, and starts again on its disk.
func (b *bench) death(spec MachineSpec) {
	b.t.Helper()
	b.check("a file", spec, "echo kept >/root/file; sync", "")
	if got := Incarnation(b.stateDir, testNetwork, spec.Name); got != 1 {
		b.t.Errorf("incarnation of the running machine: %d, want 1", got)
	}
	p := b.recorded(spec.Name).Process
	if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
		b.t.Fatal(err)
	}
	b.until("the machine is dead", func() bool { return !p.alive() })
	if got := Incarnation(b.stateDir, testNetwork, spec.Name); got != 2 {
		b.t.Errorf("incarnation of the dead machine: %d, want 2", got)
	}
	spec.Incarnation = 2
	b.up(spec)
	b.check("the disk after the machine's death", spec, "cat /root/file", "kept")
	if got := Incarnation(b.stateDir, testNetwork, spec.Name); got != 2 {
		b.t.Errorf("incarnation of the machine that came back: %d, want 2", got)
	}
}

// killedUp: SIGKILL anywhere in `machine up` leaves what the next one mends.
func (b *bench) killedUp(spec MachineSpec) {
	b.t.Helper()
	dir := machineDir(b.stateDir, testNetwork, spec.Name)
	for _, stage := range []struct{ name, file string }{
		{"once the disk is mounted", "root/etc/passwd"},
		{"once it boots", "console.log"},
		{"once it is recorded", recordFile},
	} {
		if err := MachineDown(b.stateDir, testNetwork, spec.Name); err != nil {
			b.t.Fatal(err)
		}
		cmd := b.command(spec, "machine", "up", b.stateDir, b.base)
		if err := cmd.Start(); err != nil {
			b.t.Fatal(err)
		}
		b.until(stage.name, func() bool { _, err := os.Stat(filepath.Join(dir, stage.file)); return err == nil })
		if err := cmd.Process.Kill(); err != nil {
			b.t.Fatal(err)
		}
		_ = cmd.Wait() // killed
		b.up(spec)
		b.check("a machine whose up was killed "+stage.name, spec, "hostname", spec.Name)
		b.check("it is there once", spec, "echo $(ps -e -o comm= | grep -c ^systemd-journal)", "1")
	}
}

// forwarder: a dead one is seen, comes back, and takes other forwards.
func (b *bench) forwarder() {
	b.t.Helper()
	path := filepath.Join(networkDir(b.stateDir, testNetwork), recordFile)
	r, err := readRecord(path)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := syscall.Kill(r.Process.PID, syscall.SIGKILL); err != nil {
		b.t.Fatal(err)
	}
	b.until("the forwarder is dead", func() bool { return !r.Process.alive() })
	b.network.Incarnation = NetworkIncarnation(b.stateDir, testNetwork)
	if b.network.Incarnation != 2 {
		b.t.Errorf("incarnation of the network without its forwarder: %d, want 2", b.network.Incarnation)
	}
	b.lab(b.network, "network", "up", b.stateDir)
	b.check("ssh through the new forwarder", b.machine("one"), "hostname", "one")
	b.network.Forwards = b.network.Forwards[1:]
	b.lab(b.network, "network", "up", b.stateDir)
	b.check("a forward that stays", b.machine("two"), "hostname", "two")
	if _, err := b.ssh(b.machine("one"), "hostname"); err == nil {
		b.t.Error("a forward that was removed still leads to the machine")
	}
}

// A machine that can't boot ends with what its console said, and leaves no
// process; its down works.
func TestMachineThatDiesWhileItBoots(t *testing.T) {
	b := newBench(t)
	b.lab(b.network, "network", "up", b.stateDir)
	if err := os.Remove(filepath.Join(b.stateDir, "base")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(b.stateDir, "base", "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	err := MachineUp(t.Context(), b.stateDir, b.machine("one"), "empty", os.Stderr)
	if err == nil || !strings.HasPrefix(err.Error(), "machine one: it ended while it booted; its console's last lines:\n") || strings.HasSuffix(err.Error(), ":\n") {
		t.Errorf("got %v; want the console's last lines", err)
	}
	if err := MachineDown(b.stateDir, testNetwork, "one"); err != nil {
		t.Errorf("down: %v", err)
	}
	if err := NetworkDown(t.Context(), b.stateDir, testNetwork); err != nil {
		t.Errorf("network down: %v", err)
	}
	for _, left := range leftovers(b.stateDir) {
		t.Errorf("left behind: %s", left)
	}
}

func TestMachineWithoutItsNetwork(t *testing.T) {
	b := newBench(t)
	err := MachineUp(t.Context(), b.stateDir, b.machine("one"), b.base, os.Stderr)
	if err == nil || err.Error() != "machine one: its network "+testNetwork+" is not up; run lab network up first" {
		t.Errorf("got %v", err)
	}
}

// An `up` that was killed is in no stack's state: the network's down is all that
// will come.
func TestNetworkDownEndsMachinesThatNobodyRecorded(t *testing.T) {
	b := newBench(t)
	b.lab(b.network, "network", "up", b.stateDir)
	b.up(b.machine("one"))
	if err := NetworkDown(t.Context(), b.stateDir, testNetwork); err != nil {
		t.Errorf("network down: %v", err)
	}
	for _, left := range leftovers(b.stateDir) {
		t.Errorf("left behind: %s", left)
	}
}

// Where /run is a disk, a restart of the computer leaves the empty file of a
// namespace, the owner's record and a process id that someone else has now.
func TestNetworkUpAfterARestartOfTheComputer(t *testing.T) {
	b := newBench(t)
	other := filepath.Join(t.TempDir(), ".lab")
	self, err := identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	self.BootID = "the one before"
	if err := os.MkdirAll(networkDir(other, testNetwork), 0o755); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(owner{other, self.BootID})
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string][]byte{namespacePath(testNetwork): nil, ownerFile(testNetwork): raw} {
		if err := atomicfile.Write(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := (record{1, self, "[]"}).write(filepath.Join(networkDir(b.stateDir, testNetwork), recordFile)); err != nil {
		t.Fatal(err)
	}
	if b.network.Incarnation = NetworkIncarnation(b.stateDir, testNetwork); b.network.Incarnation != 2 {
		t.Errorf("incarnation of the network after the restart: %d, want 2", b.network.Incarnation)
	}
	b.lab(b.network, "network", "up", b.stateDir)
	if !namespaceLives(testNetwork) {
		t.Error("there is no network namespace")
	}
}

// leftovers lists what of the test's network is on the computer.
func leftovers(stateDir string) (found []string) {
	for _, pattern := range []string{namespacePath(testNetwork), ownerFile(testNetwork), "/sys/fs/cgroup/" + testNetwork + "*", "/sys/fs/cgroup/*/" + testNetwork + "*", filepath.Join(stateDir, "machines")} {
		paths, _ := filepath.Glob(pattern)
		found = append(found, paths...)
	}
	mounts, _ := mountsBelow(stateDir, "/proc/self/mountinfo")
	found = append(found, mounts...)
	processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range processes {
		if raw, _ := os.ReadFile(p); bytes.Contains(raw, []byte(testNetwork)) {
			found = append(found, p+": "+string(bytes.ReplaceAll(raw, []byte{0}, []byte{' '})))
		}
	}
	return found
}

// containerScript runs a container whose disk is an overlay on the machine's, in
// groups within the machine's.
const containerScript = `set -e
awk '$3 == "cgroup" { print $2 }' /proc/mounts | while read -r group; do mount -o remount,rw,bind "$group"; done
cd /var/lib/containerd
mkdir upper work rootfs
mount -t overlay overlay -o "lowerdir=/,upperdir=$PWD/upper,workdir=$PWD/work" rootfs
runc spec
sed -i 's/"terminal": true/"terminal": false/; s/"sh"/"hostname"/; s/"hostname": "runc"/"hostname": "box"/' config.json
runc run box
test ! -w /proc/sys/vm/overcommit_memory
test -w /proc/sys/net/ipv4/ip_forward
test -e /dev/kmsg
nft list ruleset
ls /usr/lib/cni/ptp`

func TestANodeRunsAContainer(t *testing.T) {
	b := newBench(t)
	b.lab(b.network, "network", "up", b.stateDir)
	one := b.machine("one")
	one.Node = true
	b.up(one)
	b.check("a container", one, containerScript, "box\n/usr/lib/cni/ptp")
	if err := NetworkDown(t.Context(), b.stateDir, testNetwork); err != nil {
		t.Errorf("network down: %v", err)
	}
	for _, left := range leftovers(b.stateDir) {
		t.Errorf("left behind: %s", left)
	}
}
