// Command app is the demo workload: a small catalogue over Postgres with a Redis
// cache and queue, whose settings are the changes of the published write-ups.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

const usage = `usage: app web|worker|beat|migrate|calibrate
  web        serve HTTP
  worker     run the jobs of the queue
  beat       queue the scheduled jobs
  migrate    make the schema and its deterministic data
  calibrate  print how many iterations of /work take a millisecond of CPU here
Settings come from the environment; see config.go.`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	if err := command(ctx, os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "app %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}

func command(ctx context.Context, name string) error {
	commands := map[string]func(context.Context, config) error{
		"web": web, "worker": worker, "beat": beat, "migrate": migrate,
	}
	if name == "calibrate" {
		perMs, err := calibrate()
		if err == nil {
			fmt.Println(perMs)
		}
		return err
	}
	run, ok := commands[name]
	if !ok {
		return fmt.Errorf("no such command\n%s", usage)
	}
	c, err := loadConfig(os.Getenv)
	if err != nil {
		return fmt.Errorf("read the environment:\n%w", err)
	}
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: c.logLevel})))
	return run(ctx, c)
}
