// Command pulumi-language-go is a Pulumi language host for Go programs, for
// machines where the official one can't be had. It serves what up, preview,
// refresh, destroy, about and install ask of it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pulumi/pulumi/sdk/v3/go/common/util/rpcutil"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"google.golang.org/grpc"
)

// engineCheckPeriod is how often the engine is asked whether it lives.
const engineCheckPeriod = 10 * time.Second

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "pulumi-language-go:", err)
		os.Exit(1)
	}
}

// serve answers the engine until it hangs up or interrupts.
func serve() error {
	h := &host{programs: &sync.WaitGroup{}}
	for _, arg := range os.Args[1:] {
		if !strings.HasPrefix(arg, "-") {
			h.engine = arg
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	h.ctx, h.stop = ctx, stop
	if h.engine != "" { // an engine that was killed tells nobody
		if err := rpcutil.Healthcheck(ctx, h.engine, engineCheckPeriod, stop); err != nil {
			return fmt.Errorf("watch the engine: %w", err)
		}
	}
	cancel := make(chan bool)
	go func() { <-ctx.Done(); close(cancel) }()
	server, err := rpcutil.ServeWithOptions(rpcutil.ServeOptions{
		Cancel: cancel,
		Init: func(s *grpc.Server) error {
			pulumirpc.RegisterLanguageRuntimeServer(s, h)
			return nil
		},
	})
	if err != nil {
		return err
	}
	fmt.Println(server.Port) // the engine reads the port from the first line
	err = <-server.Done
	h.programs.Wait()
	return err
}
