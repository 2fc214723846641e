package analysis

import "math"

// Explanation is a verdict with all that led to it, for who doubts it.
type Explanation struct {
	Verdict Verdict           `json:"verdict"`
	Steps   []StepExplanation `json:"steps"` // in the result's order
	Watched []Watched         `json:"watched"`
}

// StepExplanation is how one step was judged.
type StepExplanation struct {
	Run             int     `json:"run"`
	Phase           string  `json:"phase"`
	OfferedRPS      float64 `json:"offeredRps"`
	CompletedRPS    float64 `json:"completedRps"`
	P95Ms           float64 `json:"p95Ms"` // 0 when nothing completed
	Sustained       bool    `json:"sustained"`
	Reason          string  `json:"reason,omitempty"`  // why not
	LeftOut         string  `json:"leftOut,omitempty"` // why the verdict is not read from it
	InSLO           bool    `json:"inSlo"`
	OnPlateau       bool    `json:"onPlateau"`       // its completions are part of the ceiling's mean
	NearCeiling     bool    `json:"nearCeiling"`     // the wall was looked for here
	LittlesResidual float64 `json:"littlesResidual"` // 0 where the law can't be checked
	HottestHost     string  `json:"hottestHost,omitempty"`
	HottestCPURatio float64 `json:"hottestCpuRatio"`
}

// Watched is a resource near the ceiling and how much of it makes it the wall.
type Watched struct {
	Host      string  `json:"host"`     // of a cluster's pods, their workload or autoscaler
	Resource  string  `json:"resource"` // cpu, disk, nic, memory, conntrack, connections, pool, thread, HPA replicas, pods throttled
	Ratio     float64 `json:"ratio"`    // of what there is
	WallRatio float64 `json:"wallRatio"`
	Wall      bool    `json:"wall"` // it is at or above it
}

// Explain tells how the verdict of r was read: every step, and every resource
// beside its threshold.
func Explain(r Result) Explanation {
	runs := readings(r)
	e := Explanation{Verdict: analyze(r, runs)}
	index := map[int]int{}
	whys, fits := make([][]string, len(runs)), make([]float64, len(runs))
	for i, steps := range runSteps(r.Steps) {
		whys[i], fits[i] = leftOut(r.Scenario, steps), hockeyStick(evidence(runs[i].history))
	}
	for _, s := range r.Steps {
		run := max(s.Run, 0)
		ok, reason := Sustained(s)
		x := StepExplanation{
			Run: run, Phase: s.Phase, OfferedRPS: s.OfferedRPS, CompletedRPS: s.CompletedRPS(), P95Ms: s.P95Ms,
			Sustained: ok, Reason: reason, LeftOut: whys[run][index[run]],
			InSLO: inSLO(r.Scenario, s), LittlesResidual: LittlesResidual(s),
		}
		index[run]++
		if r.Unsound != "" {
			x.LeftOut, x.Sustained, x.Reason = LeftOutCounted, false, LeftOutCounted
		}
		if runs[run].status == StatusFound && x.LeftOut == "" {
			x.OnPlateau = onPlateau(s, fits[run]) // as plateau does
		}
		for _, near := range runs[run].around {
			x.NearCeiling = x.NearCeiling || x.LeftOut == "" && near.OfferedRPS == s.OfferedRPS && near.Completed == s.Completed && near.Phase == s.Phase
		}
		for _, h := range hosts([]Step{s}) {
			if h.Samples > 0 && h.CPURatio >= x.HottestCPURatio {
				x.HottestHost, x.HottestCPURatio = h.Host, h.CPURatio
			}
		}
		e.Steps = append(e.Steps, x)
	}
	var near []Step
	for _, run := range runs {
		near = append(near, run.around...)
	}
	e.Watched = watched(near)
	return e
}

// watched are the resources that were sampled near the ceiling.
func watched(near []Step) []Watched {
	var all []Watched
	add := func(host, resource string, ratio, wall float64, is bool) {
		if ratio >= 0 && !math.IsNaN(ratio) {
			all = append(all, Watched{host, resource, ratio, wall, is})
		}
	}
	for _, h := range hosts(near) {
		if h.Samples == 0 {
			continue
		}
		add(h.Host, "cpu", h.CPURatio, hotCPU, cpuHot(h))
		add(h.Host, "disk", h.DiskRatio, hotDisk, diskHot(h))
		if h.LinkMbps > 0 {
			add(h.Host, "nic", nicRatio(h), hotNIC, nicHot(h))
		}
		add(h.Host, "memory", h.MemoryRatio, hotMemory, false)
		if h.ConntrackRatio > 0 {
			add(h.Host, "conntrack", h.ConntrackRatio, fullConntrack, conntrackFull(h))
		}
	}
	for _, u := range services(near) {
		if u.Samples == 0 {
			continue
		}
		if u.ConnectionLimit > 0 {
			resource := u.Service + " connections"
			if u.Service == ServiceApp {
				resource = "app's database pool"
			}
			add(u.Host, resource, u.Connections/u.ConnectionLimit, fullRatio, connectionsFull(u))
		}
		if threadNames[u.Service] != "" {
			add(u.Host, u.Service+" thread", u.ThreadRatio, hotThread, threadHot(u))
		}
	}
	for _, a := range autoscalers(near) {
		if a.MaxReplicas > 0 {
			add(a.Name, "HPA replicas", a.Replicas/float64(a.MaxReplicas), 1, atMax(a))
		}
	}
	for _, w := range podGroups(near) {
		add(w.Name, "pods throttled", w.ThrottledRatio, podThrottled, throttledPods(w))
	}
	for _, g := range generators(near) {
		if g.Samples > 0 {
			add(g.Host, "load generator cpu", g.CPURatio, generatorCPU, g.CPURatio >= generatorCPU)
		}
	}
	return all
}
