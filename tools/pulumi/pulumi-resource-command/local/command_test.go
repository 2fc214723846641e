package local

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/pulumi/pulumi-go-provider/infer"
)

func ptr[T any](v T) *T { return &v }

func create(ctx context.Context, in Inputs) (State, error) {
	resp, err := (&Command{}).Create(ctx, infer.CreateRequest[Inputs]{Name: "c", Inputs: in})
	return resp.Output, err
}

func TestLifecycle(t *testing.T) {
	dir := t.TempDir()
	in := Inputs{
		Create: ptr(`cat; echo "in $PWD, $COLOR" >&2`),
		Update: ptr(`echo "was $PULUMI_COMMAND_STDOUT"`),
		Delete: ptr(`echo "$PULUMI_COMMAND_STDOUT" >deleted`),
		Stdin:  ptr("hello\n"), Dir: &dir,
		Environment: &map[string]string{"COLOR": "green"},
	}
	state, err := create(t.Context(), in)
	if err != nil || state.Stdout != "hello" || state.Stderr != "in "+dir+", green" {
		t.Fatalf("create: %q, %q, %v", state.Stdout, state.Stderr, err)
	}
	updated, err := (&Command{}).Update(t.Context(), infer.UpdateRequest[Inputs, State]{Inputs: in, State: state})
	if err != nil || updated.Output.Stdout != "was hello" {
		t.Fatalf("update: %q, %v", updated.Output.Stdout, err)
	}
	if _, err := (&Command{}).Delete(t.Context(), infer.DeleteRequest[State]{State: updated.Output}); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "deleted")); string(got) != "was hello\n" {
		t.Errorf("delete saw %q", got)
	}
}

func TestUpdateRunsCreateWhenThereIsNoUpdate(t *testing.T) {
	got, err := (&Command{}).Update(t.Context(), infer.UpdateRequest[Inputs, State]{Inputs: Inputs{Create: ptr("echo again")}})
	if err != nil || got.Output.Stdout != "again" {
		t.Errorf("%q, %v", got.Output.Stdout, err)
	}
}

func TestPreviewRunsNothing(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "mark")
	_, err := (&Command{}).Create(t.Context(), infer.CreateRequest[Inputs]{Inputs: Inputs{Create: ptr("touch " + mark)}, DryRun: true})
	if _, missing := os.Stat(mark); err != nil || missing == nil {
		t.Errorf("the command ran in a preview (%v)", err)
	}
}

func TestErrorHoldsTheOutputAndNotTheInput(t *testing.T) {
	_, err := create(t.Context(), Inputs{Create: ptr("echo out; echo err >&2; exit 3"), Stdin: ptr("s3cret")})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"exit status 3", "out", "err"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q lacks %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "s3cret") {
		t.Errorf("error %q holds the standard input", err)
	}
}

func TestCancelEndsTheWholeGroup(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "started")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		// The grandchild holds the output open: unless it ends too, run waits.
		_, err := create(ctx, Inputs{Create: ptr("sh -c 'echo up >started; exec sleep 600' & wait"), Dir: &dir})
		done <- err
	}()
	if _, err := os.ReadFile(fifo); err != nil { // returns once the grandchild runs
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("a cancelled command has no error")
	}
}

func TestMatching(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{"a.txt", "b.log", "sub/c.txt", "sub/deep/d.txt"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cases := []struct {
		name  string
		rules []string
		want  []string
	}{
		{"a star stays in one folder", []string{"*.txt"}, []string{"a.txt"}},
		{"two stars cross folders", []string{"**.txt"}, []string{"a.txt", "sub/c.txt", "sub/deep/d.txt"}},
		{"a later rule excludes", []string{"**", "!sub/**"}, []string{"a.txt", "b.log"}},
		{"a later rule includes again", []string{"**", "!sub/**", "sub/c.*"}, []string{"a.txt", "b.log", "sub/c.txt"}},
		{"braces are alternatives", []string{"{a,b}.*"}, []string{"a.txt", "b.log"}},
		{"no file, no path", []string{"none"}, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := matching(dir, c.rules)
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%v, %v; want %v", got, err, c.want)
			}
		})
	}
}

func TestAssetsAreCollected(t *testing.T) {
	dir := t.TempDir()
	got, err := create(t.Context(), Inputs{
		Create: ptr("echo 1 >one; echo 2 >two"), Dir: &dir,
		AssetPaths: &[]string{"*"}, ArchivePaths: &[]string{"one"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(*got.Assets) != 2 || (*got.Assets)["two"].Path != filepath.Join(dir, "two") {
		t.Errorf("assets %v", *got.Assets)
	}
	if files, _ := got.Archive.GetAssets(); len(files) != 1 {
		t.Errorf("archive of %v", files)
	}
}
