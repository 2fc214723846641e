package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pulumi/pulumi/sdk/v3/go/common/version"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
)

// reported is the exit status of a program that has told the engine its error.
const reported = 32

// host is the LanguageRuntime service.
type host struct {
	pulumirpc.UnimplementedLanguageRuntimeServer
	engine   string             // the engine's address
	ctx      context.Context    // ends with the host: on a signal, Cancel or the engine's death
	stop     context.CancelFunc // ends ctx
	programs *sync.WaitGroup    // those that run
}

func (h *host) Handshake(_ context.Context, req *pulumirpc.LanguageHandshakeRequest) (*pulumirpc.LanguageHandshakeResponse, error) {
	h.engine = req.GetEngineAddress()
	return &pulumirpc.LanguageHandshakeResponse{}, nil
}

// Cancel ends the program that runs.
func (h *host) Cancel(context.Context, *emptypb.Empty) (*emptypb.Empty, error) {
	h.stop()
	return &emptypb.Empty{}, nil
}

func (*host) GetPluginInfo(context.Context, *emptypb.Empty) (*pulumirpc.PluginInfo, error) {
	return &pulumirpc.PluginInfo{Version: strings.TrimPrefix(version.Version, "v")}, nil
}

func (*host) About(ctx context.Context, _ *pulumirpc.AboutRequest) (*pulumirpc.AboutResponse, error) {
	path, err := exec.LookPath("go")
	if err != nil {
		return nil, err
	}
	out, err := goTool(ctx, "", "env", "GOVERSION")
	return &pulumirpc.AboutResponse{Executable: path, Version: strings.TrimSpace(string(out))}, err
}

// GetRequiredPackages names the resource plugins of the program: those of the
// modules it requires that carry a pulumi-plugin.json, at the module's root or
// in its go/NAME folder.
func (*host) GetRequiredPackages(ctx context.Context, req *pulumirpc.GetRequiredPackagesRequest) (*pulumirpc.GetRequiredPackagesResponse, error) {
	out, err := goTool(ctx, req.GetInfo().GetProgramDirectory(), "list", "-m", "-f", "{{if not .Indirect}}{{.Dir}}\t{{.Version}}{{end}}", "all")
	if err != nil {
		return nil, err
	}
	resp := &pulumirpc.GetRequiredPackagesResponse{}
	for line := range strings.Lines(string(out)) {
		dir, moduleVersion, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if !ok || dir == "" {
			continue
		}
		files, _ := filepath.Glob(filepath.Join(dir, "go", "*", "pulumi-plugin.json"))
		for _, file := range append(files, filepath.Join(dir, "pulumi-plugin.json")) {
			p, err := readPlugin(file, moduleVersion)
			if err != nil {
				return nil, err
			}
			if p != nil {
				resp.Packages = append(resp.Packages, p)
			}
		}
	}
	return resp, nil
}

func readPlugin(file, moduleVersion string) (*pulumirpc.PackageDependency, error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var meta struct {
		Resource              bool
		Name, Version, Server string
	}
	if err := json.Unmarshal(raw, &meta); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if !meta.Resource {
		return nil, nil
	}
	if meta.Version == "" {
		meta.Version = moduleVersion
	}
	return &pulumirpc.PackageDependency{
		Name: meta.Name, Kind: "resource", Server: meta.Server,
		Version: strings.TrimPrefix(meta.Version, "v"),
	}, nil
}

// InstallDependencies downloads what the program builds with, and no more.
func (*host) InstallDependencies(req *pulumirpc.InstallDependenciesRequest, stream grpc.ServerStreamingServer[pulumirpc.InstallDependenciesResponse]) error {
	_, err := goTool(stream.Context(), req.GetInfo().GetProgramDirectory(), "list", "-deps", ".")
	return err
}

// GetProgramDependencies lists the required modules, for `pulumi about`.
func (*host) GetProgramDependencies(ctx context.Context, req *pulumirpc.GetProgramDependenciesRequest) (*pulumirpc.GetProgramDependenciesResponse, error) {
	out, err := goTool(ctx, req.GetInfo().GetProgramDirectory(), "mod", "edit", "-json")
	if err != nil {
		return nil, err
	}
	var mod struct {
		Require []struct {
			Path, Version string
			Indirect      bool
		}
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		return nil, fmt.Errorf("go mod edit: %w", err)
	}
	resp := &pulumirpc.GetProgramDependenciesResponse{}
	for _, r := range mod.Require {
		if !r.Indirect || req.TransitiveDependencies {
			resp.Dependencies = append(resp.Dependencies, &pulumirpc.DependencyInfo{Name: r.Path, Version: r.Version})
		}
	}
	return resp, nil
}

// Run builds the program, unless Pulumi.yaml names a built one, and runs it.
func (h *host) Run(ctx context.Context, req *pulumirpc.RunRequest) (*pulumirpc.RunResponse, error) {
	h.programs.Add(1)
	defer h.programs.Done()
	ctx, end := context.WithCancel(ctx)
	defer end()
	defer context.AfterFunc(h.ctx, end)()
	program, err := build(ctx, req.GetInfo())
	if err != nil {
		return &pulumirpc.RunResponse{Error: err.Error()}, nil
	}
	config, err := json.Marshal(req.Config)
	if err != nil {
		return nil, err
	}
	secretKeys, err := json.Marshal(req.ConfigSecretKeys)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, req.Args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Dir = req.Pwd
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(),
		"PULUMI_ORGANIZATION="+req.Organization,
		"PULUMI_PROJECT="+req.Project,
		"PULUMI_STACK="+req.Stack,
		"PULUMI_ROOT_DIRECTORY="+req.GetInfo().GetRootDirectory(),
		"PULUMI_CONFIG="+string(config),
		"PULUMI_CONFIG_SECRET_KEYS="+string(secretKeys),
		fmt.Sprintf("PULUMI_DRY_RUN=%t", req.DryRun),
		fmt.Sprintf("PULUMI_PARALLEL=%d", req.Parallel),
		"PULUMI_MONITOR="+req.MonitorAddress,
		"PULUMI_ENGINE="+h.engine,
	)
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return &pulumirpc.RunResponse{}, nil
	case errors.As(err, &exit) && exit.ExitCode() == reported:
		return &pulumirpc.RunResponse{Bail: true}, nil
	default:
		return &pulumirpc.RunResponse{Error: "the program ended: " + err.Error()}, nil
	}
}

// build returns the program's path. The file is kept beside the toolchain, so
// that go build finds it current and does not link an unchanged program again.
func build(ctx context.Context, info *pulumirpc.ProgramInfo) (string, error) {
	dir := info.GetProgramDirectory()
	if named := info.GetOptions().GetFields()["binary"].GetStringValue(); named != "" {
		if !filepath.IsAbs(named) {
			named = filepath.Join(dir, named)
		}
		return named, nil
	}
	program := filepath.Join(info.GetRootDirectory(), ".toolchain", "program")
	_, err := goTool(ctx, dir, "build", "-o", program, ".")
	return program, err
}

// goTool runs the go command in dir and returns its standard output; the error
// carries what it wrote to standard error.
func goTool(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}
