package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"lab/loadtest/analysis"
	"lab/loadtest/explain"
)

func newAnalyzeCommand() *cobra.Command {
	var asJSON, compare, across bool
	var svg string
	command := &cobra.Command{
		Use:   "analyze FILE...",
		Short: "Read raw results again: the verdict, the curve, and why",
		Long: `Read raw results again and print the verdict, the curve, every step, and why.

FILE is a run's raw result (results/STACK/RUN.json), a ledger
(results/STACK.jsonl), or what pulumi stack output result --json printed.
--compare prints how each ceiling stands to the first one's.

Exit status: 0 when a verdict was printed, whatever it is; 1 when a file can't be
read or compared.`,
		Example: `  lab analyze results/local.jsonl
  lab analyze --svg curve.svg results/local/0123456789abcdef.json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var all []explain.Named
			for _, path := range args {
				more, err := explain.Load(path)
				if err != nil {
					return err
				}
				all = append(all, more...)
			}
			switch {
			case svg != "":
				return writeSVG(cmd, svg, all)
			case compare:
				return printComparison(cmd, all, across, asJSON)
			case asJSON:
				return printExplanations(cmd, all)
			}
			for i, named := range all {
				if i > 0 {
					cmd.Println()
				}
				cmd.Printf("%s\n%s", named.Name, explain.Text(named.Result, terminal()))
			}
			return nil
		},
	}
	command.SetOut(os.Stdout)
	flags := command.Flags()
	flags.BoolVar(&asJSON, "json", false, "print everything as JSON, one object a result and line")
	flags.StringVar(&svg, "svg", "", "draw the one result into this file instead")
	flags.BoolVar(&compare, "compare", false, "print how each ceiling stands to the first one's instead")
	flags.BoolVar(&across, "across", false, "compare results of different scenarios too")
	command.MarkFlagsMutuallyExclusive("svg", "json")
	command.MarkFlagsMutuallyExclusive("svg", "compare")
	return command
}

// terminal is how wide the terminal is and whether it shows more than ASCII.
func terminal() explain.Options {
	o := explain.Options{ASCII: true}
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := strings.ToLower(os.Getenv(name)); locale != "" {
			o.ASCII = !strings.Contains(strings.ReplaceAll(locale, "-", ""), "utf8")
			break
		}
	}
	if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil && width >= 60 {
		o.Width = min(width, 120)
	}
	return o
}

func writeSVG(cmd *cobra.Command, path string, all []explain.Named) error {
	if len(all) != 1 {
		return misused(cmd, fmt.Errorf("--svg draws one result, and %d were given: name one file of results/STACK/", len(all)))
	}
	text, err := explain.SVG(all[0].Result, all[0].Name)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

func printExplanations(cmd *cobra.Command, all []explain.Named) error {
	encoder := json.NewEncoder(cmd.OutOrStdout())
	for _, named := range all {
		err := encoder.Encode(struct {
			Name  string `json:"name"`
			RunID string `json:"runId"`
			analysis.Explanation
		}{named.Name, named.Result.RunID, analysis.Explain(named.Result)})
		if err != nil {
			return err
		}
	}
	return nil
}

func printComparison(cmd *cobra.Command, all []explain.Named, across, asJSON bool) error {
	if len(all) < 2 {
		return misused(cmd, errors.New("--compare needs two results or more"))
	}
	for _, other := range all[1:] {
		c, err := analysis.Compare(all[0].Result, other.Result, across)
		if err != nil {
			if !across && strings.Contains(err.Error(), "scenarios differ") {
				err = fmt.Errorf("%w; --across compares them all the same", err)
			}
			return err
		}
		if asJSON {
			if err := json.NewEncoder(cmd.OutOrStdout()).Encode(c); err != nil {
				return err
			}
			continue
		}
		cmd.Printf("%s → %s: %s\n", all[0].Name, other.Name, c.Sentence)
	}
	return nil
}
