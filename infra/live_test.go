package infra

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"golang.org/x/crypto/ssh"

	"lab/infra/nspawn"
)

// TestMain lets the test binary be the lab program: NetworkUp starts itself as the
// forwarder.
func TestMain(m *testing.M) {
	if len(os.Args) < 3 || os.Args[1] != "network" || os.Args[2] != "serve" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := nspawn.Serve(ctx, os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// live does on real machines what the program declares, as the engine and the
// plugins would: what has not changed since the last up is left alone, what is no
// longer declared is deleted.
type live struct {
	mocks
	t        *testing.T
	shared   string // the repository's .lab
	stateDir string
	machines []string // of the hosts, those that are brought up; scripts of others are left out

	work   sync.Mutex
	done   map[string]applied
	order  []string // of done, as it was first declared
	ran    []string // in this up: scripts
	seen   map[string]bool
	failed error // the first one
}

// applied is a resource as it is.
type applied struct {
	args   pulumi.MockResourceArgs
	inputs string
	stdout string
}

func newLive(t *testing.T, machines ...string) *live {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("local machines need root: run the tests as root (sudo make test)")
	}
	shared, err := filepath.Abs("../.lab")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nspawn.BuildBase(t.Context(), shared, os.Stderr); err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	l := &live{t: t, shared: shared, machines: machines, done: map[string]applied{}}
	if l.stateDir, err = filepath.Abs(stateDir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(l.stateDir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(shared, "base"), filepath.Join(l.stateDir, "base")); err != nil {
		t.Fatal(err)
	}
	return l
}

// up brings the machines to the configuration, and returns the scripts that ran.
func (l *live) up(c Config) ([]string, error) {
	l.t.Helper()
	l.mocks, l.ran, l.seen, l.failed = mocks{}, nil, map[string]bool{}, nil
	err := pulumi.RunErr(func(ctx *pulumi.Context) error {
		_, err := New(ctx, c, 30080)
		return err
	}, pulumi.WithMocks("lab", "test", l))
	if l.failed != nil {
		return l.ran, l.failed
	}
	if err != nil {
		return l.ran, err
	}
	return l.ran, l.deleteRest()
}

func (l *live) NewResource(args pulumi.MockResourceArgs) (string, resource.PropertyMap, error) {
	id, out, err := l.mocks.NewResource(args)
	if err != nil {
		return id, out, err
	}
	if args.TypeToken == "random:index/randomPassword:RandomPassword" {
		password := fmt.Sprintf("%x", sha256.Sum256([]byte(args.Name)))[:48]
		out["result"] = resource.MakeSecret(resource.NewProperty(password))
		return id, out, nil
	}
	if !strings.HasPrefix(args.TypeToken, "command:") {
		return id, out, nil
	}
	stdout, err := l.apply(args)
	if err != nil {
		l.work.Lock()
		defer l.work.Unlock()
		if l.failed == nil {
			l.failed = err
		}
		return id, out, err
	}
	out["stdout"] = resource.NewProperty(stdout)
	return id, out, nil
}

// apply does what a resource stands for, unless it is as it was.
func (l *live) apply(args pulumi.MockResourceArgs) (string, error) {
	key := args.TypeToken + " " + args.Name
	inputs := fmt.Sprint(plain(args.Inputs["stdin"]), args.Inputs["triggers"])
	l.work.Lock()
	was, known := l.done[key]
	l.seen[key] = true
	l.work.Unlock()
	if known && was.inputs == inputs {
		return was.stdout, nil
	}
	stdout, err := l.do(args)
	if err != nil {
		return "", fmt.Errorf("%s: %w", args.Name, err)
	}
	l.work.Lock()
	defer l.work.Unlock()
	if !known {
		l.order = append(l.order, key)
	}
	l.done[key] = applied{args, inputs, stdout}
	return stdout, nil
}

func (l *live) do(args pulumi.MockResourceArgs) (string, error) {
	ctx, stdin := l.t.Context(), plain(args.Inputs["stdin"])
	switch {
	case args.TypeToken == "command:remote:CopyToRemote":
		if !l.reaches(args) {
			return "", nil
		}
		content, err := os.ReadFile(args.Inputs["source"].AssetValue().Path)
		if err != nil {
			return "", err
		}
		_, err = remotely(args.Inputs["connection"], "cat >"+plain(args.Inputs["remotePath"]), string(content))
		return "", err
	case args.TypeToken == remoteCommand:
		if !l.reaches(args) {
			return "", nil
		}
		l.work.Lock()
		l.ran = append(l.ran, args.Name)
		l.work.Unlock()
		return remotely(args.Inputs["connection"], plain(args.Inputs["create"]), stdin)
	case args.Name == "base":
		digest, err := nspawn.BuildBase(ctx, l.stateDir, os.Stderr)
		return digest, err
	case args.Name == "network":
		spec, err := nspawn.Read[nspawn.NetworkSpec](strings.NewReader(stdin))
		if err != nil {
			return "", err
		}
		l.t.Cleanup(func() {
			if err := nspawn.NetworkDown(context.Background(), l.stateDir, spec.Name); err != nil {
				l.t.Errorf("network down: %v", err)
			}
		})
		return "", nspawn.NetworkUp(ctx, l.stateDir, spec, os.Stderr)
	case strings.HasPrefix(args.Name, "labkube-"):
		root := filepath.Dir(l.shared)
		cmd := exec.CommandContext(ctx, "bash", "-c", plain(args.Inputs["create"]))
		cmd.Dir, cmd.Stderr = root, os.Stderr
		out, err := cmd.Output()
		return strings.Replace(string(out), `"path": "`, `"path": "`+root+"/", 1), err
	case slices.Contains(l.machines, args.Name):
		spec, err := nspawn.Read[nspawn.MachineSpec](strings.NewReader(stdin))
		if err != nil {
			return "", err
		}
		base, err := nspawn.BuildBase(ctx, l.stateDir, os.Stderr)
		if err != nil {
			return "", err
		}
		return "", nspawn.MachineUp(ctx, l.stateDir, spec, base, os.Stderr)
	}
	return "", nil
}

// reaches tells whether a resource is on a machine that was brought up: their
// names begin with the host's, or with the cluster's.
func (l *live) reaches(args pulumi.MockResourceArgs) bool {
	return strings.HasPrefix(args.Name, "cluster-") || slices.ContainsFunc(l.machines, func(m string) bool { return strings.HasPrefix(args.Name, m+"-") })
}

// deleteRest deletes what was not declared again, the last first, but for what
// goes with something that is deleted too.
func (l *live) deleteRest() error {
	for _, key := range slices.Backward(slices.Clone(l.order)) {
		if l.seen[key] {
			continue
		}
		was := l.done[key]
		delete(l.done, key)
		l.order = slices.DeleteFunc(l.order, func(k string) bool { return k == key })
		with := was.args.RegisterRPC.GetDeletedWith()
		token, name := "command:local:Command", with[strings.LastIndex(with, ":")+1:]
		if with != "" && !l.seen[token+" "+name] {
			continue
		}
		undo, undone := was.args.Inputs["delete"]
		switch {
		case was.args.TypeToken == remoteCommand && undone:
			l.ran = append(l.ran, was.args.Name+" undone")
			if _, err := remotely(was.args.Inputs["connection"], plain(undo), plain(was.args.Inputs["stdin"])); err != nil {
				return fmt.Errorf("%s: %w", was.args.Name, err)
			}
		case slices.Contains(l.machines, was.args.Name):
			spec, err := nspawn.Read[nspawn.MachineSpec](strings.NewReader(plain(was.args.Inputs["stdin"])))
			if err != nil {
				return err
			}
			if err := nspawn.MachineDown(l.stateDir, spec.Network, spec.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// remotely runs a command by SSH, as the command plugin does.
func remotely(connection resource.PropertyValue, command, stdin string) (string, error) {
	if connection.IsSecret() {
		connection = connection.SecretValue().Element
	}
	fields := connection.ObjectValue()
	signer, err := ssh.ParsePrivateKey([]byte(plain(fields["privateKey"])))
	if err != nil {
		return "", err
	}
	host, _, _, _, err := ssh.ParseAuthorizedKey([]byte(plain(fields["hostKey"])))
	if err != nil {
		return "", err
	}
	client, err := ssh.Dial("tcp", fmt.Sprintf("%s:%.0f", plain(fields["host"]), fields["port"].NumberValue()), &ssh.ClientConfig{
		User: plain(fields["user"]), Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: ssh.FixedHostKey(host), Timeout: 20 * time.Second,
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
	var stdout, stderr strings.Builder
	session.Stdin, session.Stdout, session.Stderr = strings.NewReader(stdin), &stdout, &stderr
	if err := session.Run(command); err != nil {
		return "", fmt.Errorf("%w\n%s", err, stderr.String())
	}
	return stdout.String(), nil
}

// standin builds the stand-in for a k3s of a version, and returns its sum.
func standin(t *testing.T, root, path, version string) string {
	t.Helper()
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X main.version="+version, "-o", path, "./infra/k3s/standin")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the stand-in: %v\n%s", err, out)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(content))
}
