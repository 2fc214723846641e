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
	StatusSLOMissed          Status = "slo-missed" // an untilSLO or ramp run left its target before anything saturated
	StatusGeneratorLimited   Status = "generator-limited"
	StatusFloorTooHigh       Status = "floor-too-high"
	StatusTargetDown         Status = "target-down"
	StatusEnvironmentInvalid Status = "environment-invalid"
	StatusAborted            Status = "aborted"
)

// The kinds of a scenario: how its rates follow each other.
const (
	KindSearch     = "search"     // finds the ceiling by itself: the default
	KindBreakpoint = "breakpoint" // from the floor, riseRps more each step, until the cap or the wall
	KindRamp       = "ramp"       // the stages, whatever happens
	KindUntilSLO   = "untilSLO"   // as breakpoint, and it ends at the first step outside the SLO
	KindSteady     = "steady"     // the floor's rate, stepSeconds long
)

// The engines.
const (
	EngineBuiltin = "builtin"
	EngineK6      = "k6"
)

// The protocols of the built-in engine.
const (
	ProtocolHTTP1 = "http/1.1"
	ProtocolHTTP2 = "http/2" // over TLS by ALPN, in clear text with prior knowledge
)

// The services whose own figures are sampled.
const (
	ServicePostgres = "postgres"
	ServiceRedis    = "redis"
	ServiceNginx    = "nginx"
	ServiceApp      = "app" // the workload's /metrics
)

// Scenario is what a load test offers and to what. Two results are comparable
// only when their scenarios are equal (compare Digest).
type Scenario struct {
	Kind          string     `json:"kind"`             // one of the kinds
	Engine        string     `json:"engine"`           // "builtin" or "k6"
	FloorRPS      float64    `json:"floorRps"`         // first offered rate; of steady, the only one
	CapRPS        float64    `json:"capRps"`           // highest rate ever offered
	RiseRPS       float64    `json:"riseRps"`          // breakpoint and untilSLO: between two steps
	Stages        []Stage    `json:"stages,omitempty"` // ramp: one after the other
	ProbeSeconds  float64    `json:"probeSeconds"`     // length of a bracket probe
	ProbeDiscard  float64    `json:"probeDiscard"`     // seconds discarded from its start
	StepSeconds   float64    `json:"stepSeconds"`      // length of a step
	StepDiscard   float64    `json:"stepDiscard"`      // seconds discarded from its start
	StepArrivals  int        `json:"stepArrivals"`     // a ramp step is lengthened, to 60 s at most, to hold so many
	WarmupSeconds float64    `json:"warmupSeconds"`    // a rate that fails within it is asked again after it
	SettleSeconds float64    `json:"settleSeconds"`    // the overload is held so long at the end: an autoscaler has its time
	Repeats       int        `json:"repeats"`          // runs; their median is the ceiling
	MaxInFlight   int        `json:"maxInFlight"`      // arrivals beyond it are dropped
	TimeoutMs     float64    `json:"timeoutMs"`        // per request
	SLOP95Ms      float64    `json:"sloP95Ms"`         // target of the intended p95
	SLOErrorRatio float64    `json:"sloErrorRatio"`    // errors + drops allowed, 0-1
	Seed          int64      `json:"seed"`             // endpoint choice
	Protocol      string     `json:"protocol"`         // "http/1.1" or "http/2"
	KeepAlive     bool       `json:"keepAlive"`        // false: a connection for each request
	Endpoints     []Endpoint `json:"endpoints"`
	K6            K6Scenario `json:"k6,omitzero"` // of the engine k6
}

// K6Scenario is what only k6 can offer.
type K6Scenario struct {
	Script       string `json:"script"`       // file of a script of the user's own, instead of the endpoints; "" for none
	ScriptSHA256 string `json:"scriptSha256"` // of its text: rows of another text do not compare
}

// Stage is a part of a ramp: its rate is constant.
type Stage struct {
	RPS     float64 `json:"rps"`
	Seconds float64 `json:"seconds"`
}

// Endpoint is one kind of request, chosen with probability Weight ÷ ΣWeight.
type Endpoint struct {
	Name    string            `json:"name"`
	Method  string            `json:"method"` // default GET
	Path    string            `json:"path"`   // path and query
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body,omitempty"`
	Weight  float64           `json:"weight"`
}

// Step is one constant offered rate, measured over its window [discard, length).
type Step struct {
	Run             int              `json:"run,omitempty"`    // the repeat it belongs to, from 0
	Phase           string           `json:"phase"`            // "bracket", "ramp" or "hold"
	OfferedRPS      float64          `json:"offeredRps"`       // the schedule's rate
	Seconds         float64          `json:"seconds"`          // window measured, after the discard
	Arrivals        int64            `json:"arrivals"`         // intended starts inside the window
	Completed       int64            `json:"completed"`        // successful responses that ended inside the window
	Failed          int64            `json:"failed"`           // error responses that ended inside the window
	Dropped         int64            `json:"dropped"`          // arrivals not started: in-flight cap full
	Errors          map[string]int64 `json:"errors,omitempty"` // by kind: dns, dial, tls, timeout, reset, protocol, status-503, …
	Blocks          []int64          `json:"blocks,omitempty"` // completed in each BlockSeconds of the window; a last part is left out
	BlockSeconds    float64          `json:"blockSeconds,omitempty"`
	P50Ms           float64          `json:"p50Ms"` // from the intended start; meaningless if Completed = 0
	P95Ms           float64          `json:"p95Ms"`
	P99Ms           float64          `json:"p99Ms"`
	SendP95Ms       float64          `json:"sendP95Ms"`     // from the real send; never used for an SLO
	SchedLagP50Ms   float64          `json:"schedLagP50Ms"` // real send − intended start
	MeanMs          float64          `json:"meanMs"`        // mean intended latency
	InFlightMean    float64          `json:"inFlightMean"`
	InFlightMax     float64          `json:"inFlightMax"`
	BacklogSlopeRPS float64          `json:"backlogSlopeRps"`      // growth of in-flight, requests per second
	Hosts           []HostUse        `json:"hosts,omitempty"`      // every host, medians or sums over the window
	Services        []ServiceUse     `json:"services,omitempty"`   // every sampled service
	Kubernetes      *KubernetesUse   `json:"kubernetes,omitempty"` // the cluster, when there is one
	Generator       HostUse          `json:"generator"`            // the generator process's own host; of several, the busiest
	Generators      []HostUse        `json:"generators,omitempty"` // every generator's host, when there are several
}

// HostUse is what one host used during one step's window. Ratios are 0-1 of
// what the host may use: CPU against its cap (CPUs), not the whole machine.
type HostUse struct {
	Host            string   `json:"host"`
	Roles           []string `json:"roles"`
	Samples         int      `json:"samples"` // 0: no data, never "idle"
	CPUs            float64  `json:"cpus"`    // the cap in CPUs
	CPURatio        float64  `json:"cpuRatio"`
	CPUSeconds      float64  `json:"cpuSeconds"`                // used in the window
	StealRatio      float64  `json:"stealRatio"`                // of the physical machine
	ForeignCPURatio float64  `json:"foreignCpuRatio,omitempty"` // of the physical machine, used by what is none of the lab's hosts
	ThrottledRatio  float64  `json:"throttledRatio"`            // periods throttled by the cap
	PSICPURatio     float64  `json:"psiCpuRatio"`               // some, −1 when unknown
	MemoryRatio     float64  `json:"memoryRatio"`               // of the host's memory
	DiskRatio       float64  `json:"diskRatio"`                 // busy; −1 when unknown
	PSIIORatio      float64  `json:"psiIoRatio"`                // −1 when unknown
	NetMbps         float64  `json:"netMbps"`                   // the busier direction
	LinkMbps        float64  `json:"linkMbps"`                  // configured; 0 when unknown
	ConntrackRatio  float64  `json:"conntrackRatio,omitempty"`  // of the table; 0 when there is none
	ListenOverflows int64    `json:"listenOverflows"`
	OOMKills        int64    `json:"oomKills"`
}

// ServiceUse is what one service said of itself during one step's window. A
// figure that this kind of service has not is at its unknown value.
type ServiceUse struct {
	Host            string             `json:"host"`
	Service         string             `json:"service"` // "postgres", "redis", "nginx", "app"
	Samples         int                `json:"samples"` // 0: no data, never "idle"
	Connections     float64            `json:"connections,omitempty"`
	ConnectionsMax  float64            `json:"connectionsMax,omitempty"`  // the most seen at once
	ConnectionLimit float64            `json:"connectionLimit,omitempty"` // 0 when unknown; of app, its pool's size
	Refused         int64              `json:"refused,omitempty"`         // connections turned away in the window; of app, by its database
	Waiting         float64            `json:"waiting,omitempty"`         // mean number that wait: sessions for a lock, requests for a connection
	ThreadRatio     float64            `json:"threadRatio"`               // the busiest single thread or worker, of a core or of its host's CPUs where those are less; −1 when unknown
	HitRatio        float64            `json:"hitRatio"`                  // of a cache; −1 when unknown
	LookupsRPS      float64            `json:"lookupsRps,omitempty"`      // that the hit ratio is of
	Waits           map[string]float64 `json:"waits,omitempty"`           // mean number of sessions by what they wait for: "Lock", "IO", …
	Statements      []Statement        `json:"statements,omitempty"`      // top of pg_stat_statements, by time
}

// Statement is one kind of query over one step's window.
type Statement struct {
	ID         string  `json:"id"` // Postgres' queryid: its text is not kept
	Calls      int64   `json:"calls"`
	MeanMs     float64 `json:"meanMs"`
	ShareRatio float64 `json:"shareRatio"` // of all statements' time, 0-1
}

// Result is everything a run measured: enough to recompute every figure.
type Result struct {
	Version     int      `json:"version"` // 1
	RunID       string   `json:"runId"`   // digest of the run's inputs
	Started     string   `json:"started"` // RFC 3339, UTC
	LoadSeconds float64  `json:"loadSeconds"`
	Engine      string   `json:"engine"`               // "builtin", or "k6" with its version
	Target      string   `json:"target"`               // base URL
	Generators  []Share  `json:"generators,omitempty"` // which hosts shared the load, when there were several; the first led
	Scenario    Scenario `json:"scenario"`
	Steps       []Step   `json:"steps"`
	Aborted     string   `json:"aborted,omitempty"` // reason, when the run did not finish
	Unsound     string   `json:"unsound,omitempty"` // why these steps can't carry a number, of a file that counts otherwise
}

// Share is one of several load generators, and what it offered of every rate.
type Share struct {
	Host  string  `json:"host"`
	Ratio float64 `json:"ratio"` // of the arrivals, 0-1
}

// Verdict is the answer read from a Result.
type Verdict struct {
	Status               Status             `json:"status"`
	CeilingRPS           float64            `json:"ceilingRps"`             // StatusFound, StatusRetrograde: the median of the runs; the cap for StatusCapReached
	LowRPS               float64            `json:"lowRps,omitempty"`       // interval of the ceiling, 90 %
	HighRPS              float64            `json:"highRps,omitempty"`      // 0 when there is none
	NoiseRatio           float64            `json:"noiseRatio,omitempty"`   // spread of the runs' ceilings ÷ their median; 0 for one run
	Runs                 []Run              `json:"runs,omitempty"`         // each repeat's own answer
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

// Run is one repeat's own answer.
type Run struct {
	Run        int     `json:"run"`
	Status     Status  `json:"status"`
	CeilingRPS float64 `json:"ceilingRps"` // 0 without one
}

// Finding is one rule that held, with the figures behind it.
type Finding struct {
	Rule     string             `json:"rule"`
	Sentence string             `json:"sentence"`
	Figures  map[string]float64 `json:"figures"`
}
