// Command app is the demo workload: a small catalogue over Postgres with a Redis
// cache and queue, whose knobs are the changes of the published write-ups.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

const usage = `usage: app web|worker|beat|migrate|calibrate
  web        serve HTTP
  worker     run the jobs of the queue
  beat       queue the scheduled jobs
  migrate    make the schema and its deterministic data
  calibrate  print how many iterations of /work make a millisecond of CPU here
Settings come from the environment; see config.go.`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	if err := command(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "app:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, name string) error {
	if name == "calibrate" {
		fmt.Println(calibrate())
		return nil
	}
	c, err := loadConfig(os.Getenv)
	if err != nil {
		return err
	}
	switch name {
	case "web":
		return web(ctx, c)
	case "worker":
		return worker(ctx, c)
	case "beat":
		return beat(ctx, c)
	case "migrate":
		return migrate(ctx, c)
	}
	return fmt.Errorf("no command %q\n%s", name, usage)
}
