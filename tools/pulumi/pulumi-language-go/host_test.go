package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"
)

func newHost(t *testing.T) *host {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	return &host{ctx: ctx, stop: stop, programs: &sync.WaitGroup{}}
}

// program writes a Go program of one file and returns its folder.
func program(t *testing.T, body string) *pulumirpc.ProgramInfo {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"go.mod":  "module program\n\ngo 1.26\n",
		"main.go": "package main\n\nimport \"os\"\n\nfunc main() {\n" + body + "\n}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return &pulumirpc.ProgramInfo{RootDirectory: dir, ProgramDirectory: dir}
}

func TestRun(t *testing.T) {
	cases := []struct {
		name, body string
		bail       bool
		problem    string
	}{
		{"a program that ends well", "os.Exit(0)", false, ""},
		{"a program that told its error already", "os.Exit(32)", true, ""},
		{"a program that fails", "os.Exit(3)", false, "exit status 3"},
		{"a program that does not compile", "os.Exit(none)", false, "undefined: none"},
		{"the stack's name and config arrive", `if os.Getenv("PULUMI_STACK") != "local" || os.Getenv("PULUMI_CONFIG") != "{\"a:b\":\"c\"}" { os.Exit(1) }`, false, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			info := program(t, c.body)
			got, err := newHost(t).Run(t.Context(), &pulumirpc.RunRequest{
				Info: info, Pwd: info.ProgramDirectory, Stack: "local", Config: map[string]string{"a:b": "c"},
			})
			if err != nil {
				t.Fatal(err)
			}
			if got.Bail != c.bail || (got.Error == "") != (c.problem == "") || !strings.Contains(got.Error, c.problem) {
				t.Errorf("%v; want bail %t, error %q", got, c.bail, c.problem)
			}
		})
	}
}

func TestAnUnchangedProgramIsNotLinkedAgain(t *testing.T) {
	info := program(t, "os.Exit(0)")
	link := func() os.FileInfo {
		t.Helper()
		path, err := build(t.Context(), info)
		if err != nil {
			t.Fatal(err)
		}
		file, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	first, again := link(), link()
	if !os.SameFile(first, again) { // go build renames a new link into place
		t.Error("linked again")
	}
	changed := "package main\n\nfunc main() { println() }\n"
	if err := os.WriteFile(filepath.Join(info.ProgramDirectory, "main.go"), []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	if os.SameFile(again, link()) {
		t.Error("a changed program was not linked")
	}
}

func TestOptionBinaryIsNotBuilt(t *testing.T) {
	options, err := structpb.NewStruct(map[string]any{"binary": "bin/program"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := build(t.Context(), &pulumirpc.ProgramInfo{ProgramDirectory: "/lab", Options: options})
	if err != nil || got != "/lab/bin/program" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestCancelEndsTheProgram(t *testing.T) {
	info := program(t, `f, _ := os.OpenFile("up", os.O_WRONLY, 0); f.Close(); select {}`)
	h := newHost(t)
	done := make(chan *pulumirpc.RunResponse)
	up := filepath.Join(info.ProgramDirectory, "up")
	if err := syscall.Mkfifo(up, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		got, _ := h.Run(t.Context(), &pulumirpc.RunRequest{Info: info, Pwd: info.ProgramDirectory})
		done <- got
	}()
	if _, err := os.ReadFile(up); err != nil { // returns once the program runs
		t.Fatal(err)
	}
	if _, err := h.Cancel(t.Context(), &emptypb.Empty{}); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got.Error == "" {
		t.Error("no error from a program that was ended")
	}
}

func TestReadPlugin(t *testing.T) {
	cases := []struct {
		name, content, want string
	}{
		{"a pinned version", `{"resource": true, "name": "random", "version": "4.18.2"}`, "random 4.18.2"},
		{"the module's version where none is pinned", `{"resource": true, "name": "command"}`, "command 1.2.3"},
		{"no resource plugin", `{"resource": false, "name": "x"}`, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pulumi-plugin.json")
			if err := os.WriteFile(file, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			p, err := readPlugin(file, "v1.2.3")
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if p != nil {
				got = p.Name + " " + p.Version
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
