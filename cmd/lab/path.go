package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lab/hops"
)

func newPathCommand() *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use:   "path STACK",
		Short: "Try a stack's way in, hop by hop, and name the hop that fails",
		Long: `Try a stack's way in, hop by hop: from the edge to every node (or to the
app), from each load generator to the edge, from this computer to the edge.
The first hop that fails is named with what to look at, and the exit status
is 1.

The stack has to be up: the hosts' addresses and key are one of its secret
outputs.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !stackRule.MatchString(args[0]) {
				return fmt.Errorf("%q is no name of a stack", args[0])
			}
			way, err := readWay(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return tryWay(cmd.Context(), cmd.OutOrStdout(), way, args[0], asJSON)
		},
	}
	command.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return command
}

// readWay asks Pulumi for the stack's way in.
func readWay(ctx context.Context, stack string) (hops.Way, error) {
	var w hops.Way
	pulumi := exec.CommandContext(ctx, "bin/pulumi", "stack", "output", "path", "--show-secrets", "--non-interactive", "--stack", stack)
	var said bytes.Buffer
	pulumi.Stderr = &said
	raw, err := pulumi.Output()
	if err != nil {
		return w, fmt.Errorf("read the output path of the stack %s: bring it up first: %w: %s", stack, err, strings.TrimSpace(said.String()))
	}
	if err := json.Unmarshal(raw, &w); err != nil {
		return w, fmt.Errorf("read the output path of the stack %s: pulumi printed no JSON; bring the stack up again", stack)
	}
	return w, nil
}

// tryWay tries every hop, prints what came of it, and fails when any does.
func tryWay(ctx context.Context, out io.Writer, w hops.Way, stack string, asJSON bool) error {
	all := ask(ctx, w, stack)
	broken := hops.Broken(all)
	if asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		if err := e.Encode(map[string]any{"ok": broken == nil, "broken": broken, "hops": all}); err != nil {
			return err
		}
	} else {
		for _, a := range all {
			if _, err := fmt.Fprintln(out, a.Line()); err != nil {
				return err
			}
		}
	}
	if broken != nil {
		return fmt.Errorf("the way breaks at %s: %s; look at: %s", broken.Hop, broken.Error, broken.Look)
	}
	return nil
}

// ask tries the hops in order, those of one host in one session.
func ask(ctx context.Context, w hops.Way, stack string) []hops.Answer {
	hosts := map[string]hops.Host{w.Edge.Name: w.Edge}
	for _, g := range w.Generators {
		hosts[g.Name] = g
	}
	var answers []hops.Answer
	for rest := w.Hops(stack); len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].From == rest[0].From {
			n++
		}
		part := rest[:n]
		rest = rest[n:]
		if part[0].From == hops.Computer {
			answers = append(answers, askHere(ctx, part)...)
			continue
		}
		answers = append(answers, askOn(ctx, hosts[part[0].From], part)...)
	}
	return answers
}

// askOn asks on a host.
func askOn(ctx context.Context, h hops.Host, part []hops.Hop) []hops.Answer {
	start := time.Now()
	stdout, err := runOn(ctx, h, "timeout --kill-after=10 60 bash -s", hops.Script(part))
	if err == nil {
		return hops.Read(part, stdout)
	}
	var answers []hops.Answer
	for _, hop := range part {
		hop.Look = fmt.Sprintf("whether %s is up and its sshd answers at %s:%d", h.Name, h.Address, h.Port)
		answers = append(answers, hop.Failed(fmt.Sprintf("no way in to %s by SSH: %v", h.Name, err), time.Since(start).Seconds()))
	}
	return answers
}

// askHere asks from this computer.
func askHere(ctx context.Context, part []hops.Hop) []hops.Answer {
	client := http.Client{Timeout: hops.Patience, Transport: &http.Transport{DisableKeepAlives: true}} // no proxy: the lab is near
	var answers []hops.Answer
	for _, hop := range part {
		start := time.Now()
		status, err := get(ctx, &client, hop.URL)
		if took := time.Since(start).Seconds(); err != nil {
			answers = append(answers, hop.Failed(err.Error(), took))
		} else {
			answers = append(answers, hop.Answered(status, took))
		}
	}
	return answers
}

func get(ctx context.Context, client *http.Client, url string) (status int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	answer, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, err
}
