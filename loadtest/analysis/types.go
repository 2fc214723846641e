// Package analysis turns the raw steps and samples of a load test into a
// ceiling, an SLO capacity, a status and the wall: what saturated. It imports
// the standard library only and uses neither a clock, a network nor Pulumi, so
// that the same code decides on the load generator during a run and reads old
// runs again later.
package analysis

// Status says what kind of answer a run gave. StatusFound and StatusRetrograde
// print a number and StatusCapReached a bound; every other status prints "none".
type Status string

// The statuses of a run.
const (
	StatusFound              Status = "found"
	StatusCapReached         Status = "cap-reached"
	StatusRetrograde         Status = "retrograde"
	StatusGeneratorLimited   Status = "generator-limited"
	StatusFloorTooHigh       Status = "floor-too-high"
	StatusTargetDown         Status = "target-down"
	StatusEnvironmentInvalid Status = "environment-invalid"
	StatusAborted            Status = "aborted"
)

// Scenario is what a load test offers and to what. Two results are comparable
// only when their scenarios are equal (compare Digest).
type Scenario struct {
	Kind          string     `json:"kind"`          // "search"
	FloorRPS      float64    `json:"floorRps"`      // first offered rate of the bracket
	CapRPS        float64    `json:"capRps"`        // highest rate ever offered
	ProbeSeconds  float64    `json:"probeSeconds"`  // length of a bracket probe
	ProbeDiscard  float64    `json:"probeDiscard"`  // seconds discarded from its start
	StepSeconds   float64    `json:"stepSeconds"`   // length of a ramp step
	StepDiscard   float64    `json:"stepDiscard"`   // seconds discarded from its start
	StepArrivals  int        `json:"stepArrivals"`  // a ramp step is lengthened, to 60 s at most, to hold so many
	MaxInFlight   int        `json:"maxInFlight"`   // arrivals beyond it are dropped
	TimeoutMs     float64    `json:"timeoutMs"`     // per request
	SLOP95Ms      float64    `json:"sloP95Ms"`      // target of the intended p95
	SLOErrorRatio float64    `json:"sloErrorRatio"` // errors + drops allowed, 0-1
	Seed          int64      `json:"seed"`          // endpoint choice
	Endpoints     []Endpoint `json:"endpoints"`
}

// Endpoint is one kind of request, chosen with probability Weight ÷ ΣWeight.
type Endpoint struct {
	Name   string  `json:"name"`
	Method string  `json:"method"` // default GET
	Path   string  `json:"path"`   // path and query
	Body   string  `json:"body,omitempty"`
	Weight float64 `json:"weight"`
}

// Step is one constant offered rate, measured over its window [discard, length).
type Step struct {
	Phase           string           `json:"phase"`            // "bracket" or "ramp"
	OfferedRPS      float64          `json:"offeredRps"`       // the schedule's rate
	Seconds         float64          `json:"seconds"`          // window measured, after the discard
	Arrivals        int64            `json:"arrivals"`         // intended starts inside the window
	Completed       int64            `json:"completed"`        // successful responses that ended inside the window
	Failed          int64            `json:"failed"`           // error responses that ended inside the window
	Dropped         int64            `json:"dropped"`          // arrivals not started: in-flight cap full
	Errors          map[string]int64 `json:"errors,omitempty"` // by kind: dial, timeout, status-503, …
	P50Ms           float64          `json:"p50Ms"`            // from the intended start; meaningless if Completed = 0
	P95Ms           float64          `json:"p95Ms"`
	P99Ms           float64          `json:"p99Ms"`
	SendP95Ms       float64          `json:"sendP95Ms"`     // from the real send; never used for an SLO
	SchedLagP50Ms   float64          `json:"schedLagP50Ms"` // real send − intended start
	MeanMs          float64          `json:"meanMs"`        // mean intended latency
	InFlightMean    float64          `json:"inFlightMean"`
	InFlightMax     float64          `json:"inFlightMax"`
	BacklogSlopeRPS float64          `json:"backlogSlopeRps"` // growth of in-flight, requests per second
	Hosts           []HostUse        `json:"hosts,omitempty"` // every host, medians or sums over the window
	Generator       HostUse          `json:"generator"`       // the generator process's own host
}

// HostUse is what one host used during one step's window. Ratios are 0-1 of
// what the host may use: CPU against its cap (CPUs), not the whole machine.
type HostUse struct {
	Host            string   `json:"host"`
	Roles           []string `json:"roles"`
	Samples         int      `json:"samples"` // 0: no data, never "idle"
	CPUs            float64  `json:"cpus"`    // the cap in CPUs
	CPURatio        float64  `json:"cpuRatio"`
	CPUSeconds      float64  `json:"cpuSeconds"`     // used in the window
	StealRatio      float64  `json:"stealRatio"`     // of the physical machine
	ThrottledRatio  float64  `json:"throttledRatio"` // periods throttled by the cap
	PSICPURatio     float64  `json:"psiCpuRatio"`    // some, −1 when unknown
	MemoryRatio     float64  `json:"memoryRatio"`    // of the host's memory
	DiskRatio       float64  `json:"diskRatio"`      // busy; −1 when unknown
	PSIIORatio      float64  `json:"psiIoRatio"`     // −1 when unknown
	NetMbps         float64  `json:"netMbps"`        // the busier direction
	LinkMbps        float64  `json:"linkMbps"`       // configured; 0 when unknown
	ListenOverflows int64    `json:"listenOverflows"`
	OOMKills        int64    `json:"oomKills"`
}

// Result is everything a run measured: enough to recompute every figure.
type Result struct {
	Version     int      `json:"version"` // 1
	RunID       string   `json:"runId"`   // digest of the run's inputs
	Started     string   `json:"started"` // RFC 3339, UTC
	LoadSeconds float64  `json:"loadSeconds"`
	Engine      string   `json:"engine"` // "builtin"
	Target      string   `json:"target"` // base URL
	Scenario    Scenario `json:"scenario"`
	Steps       []Step   `json:"steps"`
	Aborted     string   `json:"aborted,omitempty"` // reason, when the run did not finish
}

// Verdict is the answer read from a Result.
type Verdict struct {
	Status               Status             `json:"status"`
	CeilingRPS           float64            `json:"ceilingRps"`             // StatusFound, StatusRetrograde; the cap for StatusCapReached
	CollapsedRPS         float64            `json:"collapsedRps,omitempty"` // StatusRetrograde
	Ceiling              string             `json:"ceiling"`                // "260", ">=600" or "none"
	Wall                 string             `json:"wall"`                   // one sentence, worded as the tables: "app CPU at 97%"
	SLOCapacityRPS       float64            `json:"sloCapacityRps"`         // highest contiguous step inside the SLO; 0 with SLOCapacity "none"
	SLOCapacity          string             `json:"sloCapacity"`
	KneeRPS              float64            `json:"kneeRps"`
	KneeP95Ms            float64            `json:"kneeP95Ms"` // intended p95 of the last sustained step
	Valid                bool               `json:"valid"`
	Invalid              []string           `json:"invalid,omitempty"`              // why not
	Findings             []Finding          `json:"findings,omitempty"`             // secondary, best first
	CPUSecondsPerRequest map[string]float64 `json:"cpuSecondsPerRequest,omitempty"` // by host, at the ceiling
	ScenarioDigest       string             `json:"scenarioDigest"`
}

// Finding is one rule that held, with the figures behind it.
type Finding struct {
	Rule     string             `json:"rule"`
	Sentence string             `json:"sentence"`
	Figures  map[string]float64 `json:"figures"`
}
