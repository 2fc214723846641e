package remote

import (
	"context"
	"encoding/pem"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pulumi/pulumi-go-provider/infer"
	"github.com/pulumi/pulumi-go-provider/infer/types"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"golang.org/x/crypto/ssh"
)

func TestMain(m *testing.M) {
	dialDelay = time.Millisecond
	os.Exit(m.Run())
}

func ptr[T any](v T) *T { return &v }

func create(t *testing.T, in Inputs) (State, error) {
	t.Helper()
	resp, err := (&Command{}).Create(t.Context(), infer.CreateRequest[Inputs]{Name: "c", Inputs: in})
	return resp.Output, err
}

func TestLifecycle(t *testing.T) {
	server := newSSHServer(t)
	in := Inputs{
		Connection: &server.connection,
		Create:     ptr("cat; echo aside >&2"), Update: ptr("echo update"), Delete: ptr("touch deleted"),
		Stdin: ptr("hello\n"),
	}
	state, err := create(t, in)
	if err != nil || state.Stdout != "hello" || state.Stderr != "aside" {
		t.Fatalf("create: %q, %q, %v", state.Stdout, state.Stderr, err)
	}
	updated, err := (&Command{}).Update(t.Context(), infer.UpdateRequest[Inputs, State]{Inputs: in, State: state})
	if err != nil || updated.Output.Stdout != "update" {
		t.Fatalf("update: %q, %v", updated.Output.Stdout, err)
	}
	if _, err := (&Command{}).Delete(t.Context(), infer.DeleteRequest[State]{State: updated.Output}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(server.dir, "deleted")); err != nil {
		t.Error("delete did not run")
	}
}

func TestErrorHoldsTheOutputAndNotTheInput(t *testing.T) {
	server := newSSHServer(t)
	_, err := create(t, Inputs{Connection: &server.connection, Create: ptr("echo why >&2; exit 7"), Stdin: ptr("s3cret")})
	if err == nil || !strings.Contains(err.Error(), "why") || !strings.Contains(err.Error(), "status 7") {
		t.Fatalf("error %v", err)
	}
	if strings.Contains(err.Error(), "s3cret") {
		t.Errorf("error %q holds the standard input", err)
	}
}

func TestEncryptedKey(t *testing.T) {
	server := newSSHServer(t)
	private := must(ssh.ParseRawPrivateKey([]byte(*server.connection.PrivateKey)))
	block := must(ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte("of the key")))
	server.connection.PrivateKey = ptr(string(pem.EncodeToMemory(block)))
	if _, err := create(t, Inputs{Connection: &server.connection, Create: ptr("true")}); err == nil {
		t.Error("an encrypted key was read without its password")
	}
	server.connection.PrivateKeyPassword = ptr("of the key")
	if _, err := create(t, Inputs{Connection: &server.connection, Create: ptr("true")}); err != nil {
		t.Error(err)
	}
}

func TestHostKeyOfAnotherMachineIsRefused(t *testing.T) {
	server := newSSHServer(t)
	other, _ := newKey(t)
	server.connection.HostKey = ptr(string(ssh.MarshalAuthorizedKey(other.PublicKey())))
	server.connection.DialErrorLimit = ptr(1)
	_, err := create(t, Inputs{Connection: &server.connection, Create: ptr("touch ran")})
	if err == nil || !strings.Contains(err.Error(), "host key mismatch") {
		t.Errorf("error %v, want a host key mismatch", err)
	}
	if _, err := os.Stat(filepath.Join(server.dir, "ran")); err == nil {
		t.Error("the command ran")
	}
}

func TestDialRetries(t *testing.T) {
	cases := []struct {
		name           string
		refused, limit int
		connects       bool
		connections    int32
	}{
		{"a machine that comes up late is reached", 3, 10, true, 4},
		{"the limit of errors ends it", 3, 2, false, 3},
		{"limit 0 is one try", 1, 0, false, 1},
		{"limit -1 never gives up", 12, -1, true, 13},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			server := newSSHServer(t)
			server.refuse.Store(int32(c.refused))
			server.connection.DialErrorLimit = &c.limit
			_, err := create(t, Inputs{Connection: &server.connection, Create: ptr("true")})
			if (err == nil) != c.connects || server.accepted.Load() != c.connections {
				t.Errorf("%d connections, error %v; want %d", server.accepted.Load(), err, c.connections)
			}
		})
	}
}

func TestCancelEndsTheRetries(t *testing.T) {
	server := newSSHServer(t)
	server.refuse.Store(1 << 30)
	server.connection.DialErrorLimit = ptr(-1)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := server.connection.dial(ctx); err == nil {
		t.Error("no error")
	}
}

func TestProxyHop(t *testing.T) {
	hop, target := newSSHServer(t), newSSHServer(t)
	c := hop.connection
	target.connection.Proxy = &ProxyConnection{Host: c.Host, Port: c.Port, PrivateKey: c.PrivateKey, HostKey: c.HostKey}
	got, err := create(t, Inputs{Connection: &target.connection, Create: ptr("pwd")})
	if err != nil || got.Stdout != target.dir || hop.forwarded.Load() != 1 {
		t.Errorf("ran in %q with %d forwards, %v; want %q", got.Stdout, hop.forwarded.Load(), err, target.dir)
	}
}

func TestEnvironment(t *testing.T) {
	cases := []struct {
		name      string
		acceptEnv []string
		env       map[string]string
		want      string
		problem   string
	}{
		{"an accepted variable arrives", []string{"COLOR"}, map[string]string{"COLOR": "green"}, "green|", ""},
		{"a refused variable is an error with the fix", nil, map[string]string{"COLOR": "green"}, "", "AcceptEnv"},
		{"the previous output arrives where it is accepted", []string{"PULUMI_COMMAND_STDOUT"}, nil, "|before", ""},
		{"the previous output is left out where it is refused", nil, nil, "|", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			server := newSSHServer(t)
			server.acceptEnv = c.acceptEnv
			got, err := (&Command{}).Update(t.Context(), infer.UpdateRequest[Inputs, State]{
				Inputs: Inputs{Connection: &server.connection, Create: ptr(`echo "$COLOR|$PULUMI_COMMAND_STDOUT"`), Environment: &c.env},
				State:  State{Stdout: "before"},
			})
			if c.problem != "" {
				if err == nil || !strings.Contains(err.Error(), c.problem) {
					t.Errorf("error %v, want one with %q", err, c.problem)
				}
				return
			}
			if err != nil || got.Output.Stdout != c.want {
				t.Errorf("%q, %v; want %q", got.Output.Stdout, err, c.want)
			}
		})
	}
}

func TestCopy(t *testing.T) {
	source := t.TempDir()
	for name, mode := range map[string]fs.FileMode{"tree/bin/run": 0o755, "tree/text": 0o644} {
		path := filepath.Join(source, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), mode); err != nil {
			t.Fatal(err)
		}
	}
	file := must(resource.NewPathAsset(filepath.Join(source, "tree/text")))
	tree := must(resource.NewPathArchive(filepath.Join(source, "tree")))
	cases := []struct {
		name   string
		source types.AssetOrArchive
		to     string
		want   map[string]string
	}{
		{"a file, its folders made", types.AssetOrArchive{Asset: file}, "new/it's here", map[string]string{"new/it's here": "tree/text"}},
		{"a file into a folder", types.AssetOrArchive{Asset: file}, "there", map[string]string{"there/text": "tree/text"}},
		{"a text over a file", types.AssetOrArchive{Asset: must(resource.NewTextAsset("new"))}, "there/old", map[string]string{"there/old": "new"}},
		{"a folder", types.AssetOrArchive{Archive: tree}, "copy", map[string]string{"copy/bin/run": "tree/bin/run", "copy/text": "tree/text"}},
		{"a folder into a folder", types.AssetOrArchive{Archive: tree}, "there", map[string]string{"there/tree/text": "tree/text"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			server := newSSHServer(t)
			if err := os.Mkdir(filepath.Join(server.dir, "there"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(server.dir, "there/old"), []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := (&CopyToRemote{}).Create(t.Context(), infer.CreateRequest[CopyInputs]{
				Inputs: CopyInputs{Connection: &server.connection, Source: c.source, RemotePath: c.to},
			})
			if err != nil {
				t.Fatal(err)
			}
			for path, want := range c.want {
				if got, err := os.ReadFile(filepath.Join(server.dir, path)); err != nil || string(got) != want {
					t.Errorf("%s is %q, %v; want %q", path, got, err, want)
				}
			}
			if info, err := os.Stat(filepath.Join(server.dir, "copy/bin/run")); err == nil && info.Mode().Perm() != 0o755 {
				t.Errorf("mode %v", info.Mode())
			}
		})
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
