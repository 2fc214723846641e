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
	"lab/loadtest/results"
)

func newAnalyzeCommand() *cobra.Command {
	var asJSON, compare, across bool
	var svg, scenario string
	command := &cobra.Command{
		Use:   "analyze FILE...",
		Short: "Read raw results again: the verdict, the curve, and why",
		Long: `Read raw results again and print the verdict, the curve, every step, and why.

FILE is a run's raw result (results/STACK/RUN.json), a ledger
(results/STACK.jsonl), what pulumi stack output result --json printed, or what
k6 wrote: its samples (--out json=FILE, also .gz) or the data of handleSummary.
Steps of samples are told by the tag rate of their requests, or by --scenario.

--compare prints how each ceiling stands to the first one's. docs/results.md
has every key of --json.

Exit status: 0 when every verdict was printed, whatever they are; 1 when a file,
or the raw result of a ledger's row, can't be read or compared (the rows that
can be are printed all the same, the others named on standard error); 2 when it
was called wrongly. --compare ends in 0 also where it can't tell a difference:
read "different" and "unknown" of its --json.`,
		Example: `  lab analyze results/local.jsonl
  lab analyze --svg curve.svg results/local/0123456789abcdef.json
  lab analyze --scenario breakpoint.yaml samples.json.gz`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var schedule *analysis.Scenario
			if scenario != "" {
				var err error
				if schedule, err = readSchedule(scenario); err != nil {
					return err
				}
			}
			loaded, err := results.Load(args, schedule)
			if err != nil {
				return err
			}
			switch {
			case svg != "":
				err = writeSVG(cmd, svg, loaded.Results)
			case compare:
				err = printComparison(cmd, loaded.Results, across, asJSON)
			case asJSON:
				err = printExplanations(cmd, loaded.Results)
			default:
				printTexts(cmd, loaded.Results)
			}
			return errors.Join(err, without(cmd, loaded.Missing))
		},
	}
	command.SetOut(os.Stdout)
	flags := command.Flags()
	flags.BoolVar(&asJSON, "json", false, "print everything as JSON, one object a result and line")
	flags.StringVar(&svg, "svg", "", "draw the one result into this file instead")
	flags.BoolVar(&compare, "compare", false, "print how each ceiling stands to the first one")
	flags.BoolVar(&across, "across", false, "compare results of different scenarios too")
	flags.StringVar(&scenario, "scenario", "", "`file` with the schedule of k6's samples, YAML")
	command.MarkFlagsMutuallyExclusive("svg", "json")
	command.MarkFlagsMutuallyExclusive("svg", "compare")
	return command
}

// without names the rows that have no raw result.
func without(cmd *cobra.Command, missing []string) error {
	for _, row := range missing {
		cmd.PrintErrln("lab:", row)
	}
	if len(missing) > 0 {
		return fmt.Errorf("rows without a raw result to read again: %d; what they said is in lab table", len(missing))
	}
	return nil
}

func printTexts(cmd *cobra.Command, all []results.Named) {
	for i, named := range all {
		if i > 0 {
			cmd.Println()
		}
		cmd.Print(explain.Text(named.Name, named.Result, terminal()))
	}
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
	if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil && width > 0 {
		o.Width = min(width, 120)
	}
	return o
}

func writeSVG(cmd *cobra.Command, path string, all []results.Named) error {
	if len(all) != 1 {
		return misused(cmd, fmt.Errorf("--svg draws one result, and %d were given: name one file of results/STACK/", len(all)))
	}
	text, err := explain.SVG(all[0].Result, all[0].Name)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// explained is what --json prints of a result.
type explained struct {
	Name  string `json:"name"`
	RunID string `json:"runId"`
	analysis.Explanation
}

func printExplanations(cmd *cobra.Command, all []results.Named) error {
	encoder := json.NewEncoder(cmd.OutOrStdout())
	for _, named := range all {
		if err := encoder.Encode(explained{named.Name, named.Result.RunID, analysis.Explain(named.Result)}); err != nil {
			return err
		}
	}
	return nil
}

func printComparison(cmd *cobra.Command, all []results.Named, across, asJSON bool) error {
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
		cmd.Print(terminal().Paragraph(fmt.Sprintf("%s → %s: %s", all[0].Name, other.Name, c.Sentence)))
	}
	return nil
}
