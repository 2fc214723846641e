package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"gopkg.in/yaml.v3"

	"lab/config"
	"lab/loadtest/analysis"
)

// readSchedule reads the schedule of a k6 run: a mapping with the keys of the
// configuration's loadtest.scenario. What it does not say of the VUs, k6's samples
// do.
func readSchedule(path string) (*analysis.Scenario, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var tree any
	if err := yaml.Unmarshal(raw, &tree); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	text, err := json.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	sc := analysis.DefaultScenario()
	sc.Engine, sc.Repeats, sc.MaxInFlight = analysis.EngineK6, 1, 0
	problems := config.Decode("scenario", text, &sc)
	var k config.Checker
	k.OneOf("scenario.kind", sc.Kind, []string{analysis.KindBreakpoint, analysis.KindRamp, analysis.KindUntilSLO, analysis.KindSteady})
	k.Add(sc.MaxInFlight >= 0, "scenario.maxInFlight", sc.MaxInFlight, "is below 0", "set the script's maxVUs")
	if problems = config.Merge(problems, k.Problems); len(problems) > 0 {
		return nil, config.Error(problems, path)
	}
	schedule := analysis.Schedule(sc)
	bad := slices.ContainsFunc(schedule, func(p analysis.Probe) bool {
		return p.OfferedRPS <= 0 || p.DiscardSeconds < 0 || p.Seconds-p.DiscardSeconds < 1
	})
	if bad || len(schedule) == 0 {
		return nil, fmt.Errorf("%s: kind %s gives %d steps, not all of a rate above 0 and at least 1 s after the discard; correct floorRps, riseRps, capRps, stages, stepSeconds and stepDiscard", path, sc.Kind, len(schedule))
	}
	return &sc, nil
}
