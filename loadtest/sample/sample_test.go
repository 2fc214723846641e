package sample

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"lab/loadtest/plan"
)

// proc is what every fixture has; the numbers of the machine it runs on.
var proc = map[string]string{
	"proc/stat": `cpu  1000 200 300 4000 50 10 20 70 30 0
cpu0 500 100 150 2000 25 5 10 35 15 0
ctxt 12345
btime 1796263869
`,
	"proc/net/dev": `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:  999999    1000    0    0    0     0          0         0   999999    1000    0    0    0     0       0          0
 host0:    5000      50    0    0    0     0          0         0     7000      60    0    0    0     0       0          0
  cni0:     100       1    0    0    0     0          0         0      200       1    0    0    0     0       0          0
`,
	"proc/net/netstat": `TcpExt: SyncookiesSent ListenOverflows ListenDrops
TcpExt: 1 42 43
IpExt: InNoRoutes InOctets
IpExt: 7 8
`,
	"proc/meminfo": "MemTotal:        1000 kB\nMemFree:          100 kB\nMemAvailable:     600 kB\n",
	"proc/sys/net/netfilter/nf_conntrack_count": "30\n",
	"proc/sys/net/netfilter/nf_conntrack_max":   "1000\n",
	"proc/vmstat":       "nr_free_pages 5\noom_kill 9\n",
	"proc/pressure/cpu": "some avg10=1.00 avg60=1.00 avg300=1.00 total=8000000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
	"proc/pressure/io":  "some avg10=0.00 avg60=0.00 avg300=0.00 total=3000000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1\n",
	"proc/diskstats": `   7       0 loop0 1 0 2 3 0 0 0 0 0 99999 3
 254       0 vda 5000 10 200000 900 3000 20 90000 1200 0 1500 2100 0 0 0 0 50 30
 254       1 vda1 4000 10 190000 800 3000 20 90000 1200 0 1400 2000 0 0 0 0 50 30
`,
}

var v1 = map[string]string{
	"sys/fs/cgroup/cpu/cpu.cfs_quota_us":                                      "50000\n",
	"sys/fs/cgroup/cpu/cpu.cfs_period_us":                                     "100000\n",
	"sys/fs/cgroup/cpu/cpu.stat":                                              "nr_periods 120\nnr_throttled 30\nthrottled_time 123456789\n",
	"sys/fs/cgroup/cpuacct/cpuacct.usage":                                     "2500000000\n",
	"sys/fs/cgroup/memory/memory.usage_in_bytes":                              "300000\n",
	"sys/fs/cgroup/memory/memory.limit_in_bytes":                              "536870912\n",
	"sys/fs/cgroup/memory/memory.stat":                                        "cache 1\ninactive_file 5\ntotal_inactive_file 100000\n",
	"sys/fs/cgroup/memory/memory.oom_control":                                 "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
	"sys/fs/cgroup/memory/system.slice/postgresql.service/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
}

var v2 = map[string]string{
	"sys/fs/cgroup/cpu.max":        "200000 100000\n",
	"sys/fs/cgroup/cpu.stat":       "usage_usec 3500000\nuser_usec 3000000\nsystem_usec 500000\nnr_periods 10\nnr_throttled 4\nthrottled_usec 99\n",
	"sys/fs/cgroup/memory.current": "400000\n",
	"sys/fs/cgroup/memory.max":     "max\n",
	"sys/fs/cgroup/memory.stat":    "anon 1\ninactive_file 100000\n",
	"sys/fs/cgroup/memory.events":  "low 0\noom 5\noom_kill 4\n",
	"sys/fs/cgroup/cgroup.events":  "populated 1\nfrozen 0\n",
	"sys/fs/cgroup/cpu.pressure":   "some avg10=0.00 avg60=0.00 avg300=0.00 total=250000\n",
	"sys/fs/cgroup/io.pressure":    "some avg10=0.00 avg60=0.00 avg300=0.00 total=125000\n",
}

func tree(t testing.TB, layers ...map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for _, layer := range layers {
		for name, text := range layer {
			file := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return root
}

func TestReadChoosesTheCountersOfTheHost(t *testing.T) {
	whole := Counters{
		Kind: "proc", CPUSeconds: 15.3, StealSeconds: 0.7, MachineSeconds: 56.5,
		PSICPUSeconds: 8, PSIIOSeconds: 3, MemoryBytes: 400 << 10, MemoryLimit: 1000 << 10,
		DiskBusySeconds: 1.5, RxBytes: 5100, TxBytes: 7200, ListenOverflows: 42, OOMKills: 9,
		Boot: "1796263869/1", BusySeconds: 15.3, Conntrack: 30, ConntrackLimit: 1000,
	}
	capped := whole
	capped.Kind, capped.DiskBusySeconds, capped.PSICPUSeconds, capped.PSIIOSeconds = "cgroup", -1, -1, -1
	inV1, inV2 := capped, capped
	inV1.CPUSeconds, inV1.CapCPUs, inV1.Periods, inV1.Throttled = 2.5, 0.5, 120, 30
	inV1.MemoryBytes, inV1.MemoryLimit, inV1.OOMKills = 200_000, 512<<20, 3
	inV2.CPUSeconds, inV2.CapCPUs, inV2.Periods, inV2.Throttled = 3.5, 2, 10, 4
	inV2.MemoryBytes, inV2.MemoryLimit, inV2.OOMKills = 300_000, 0, 4
	inV2.PSICPUSeconds, inV2.PSIIOSeconds = 0.25, 0.125
	uncapped, ownPressure, hardware := inV1, inV1, whole
	uncapped.CapCPUs = 0
	ownPressure.PSICPUSeconds, ownPressure.PSIIOSeconds = 0.5, -1
	hardware.RxBytes, hardware.TxBytes = 5000, 7000
	pressure := map[string]string{"sys/fs/cgroup/unified/cpu.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=500000\n"}

	for _, row := range []struct {
		name   string
		layers []map[string]string
		want   Counters
	}{
		{"a whole machine", []map[string]string{proc}, whole},
		{"a whole machine with its root groups: the v1 root has a quota file too", []map[string]string{proc, v1, pressure, {
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1", "sys/fs/cgroup/cpu/cgroup.sane_behavior": "0"}}, whole},
		{"a whole machine with a v2 root: it has statistics and no cap", []map[string]string{proc, {
			"sys/fs/cgroup/cpu.stat": v2["sys/fs/cgroup/cpu.stat"], "sys/fs/cgroup/cpu.pressure": v2["sys/fs/cgroup/cpu.pressure"]}}, whole},
		{"hardware interfaces only, where there are any", []map[string]string{proc, {"sys/class/net/host0/device/vendor": "x"}}, hardware},
		{"a machine in its own v1 groups", []map[string]string{proc, v1}, inV1},
		{"without a cap it is still not the whole machine", []map[string]string{proc, v1, {"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1"}}, uncapped},
		{"pressure of the root group is the whole machine's", []map[string]string{proc, v1, pressure}, inV1},
		{"pressure of an own unified group", []map[string]string{proc, v1, pressure, {"sys/fs/cgroup/unified/cgroup.events": "populated 1"}}, ownPressure},
		{"a machine in its own v2 group", []map[string]string{proc, v2}, inV2},
		{"both trees, the cap in v2", []map[string]string{proc, v1, v2, {"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1"}}, inV2},
		{"both trees, the cap in v1", []map[string]string{proc, v1, v2, {"sys/fs/cgroup/cpu.max": "max 100000"}}, inV1},
	} {
		got, err := Reader{Root: tree(t, row.layers...)}.Read()
		if err != nil {
			t.Errorf("%s: %v", row.name, err)
			continue
		}
		ignored := cmpopts.IgnoreFields(Counters{}, "UnixNano", "MonotonicNano", "SelfCPUSeconds")
		if diff := cmp.Diff(row.want, got, ignored, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.name, diff)
		}
	}
}

func TestReadFindsACgroupElsewhere(t *testing.T) {
	moved := map[string]string{}
	for name, text := range v1 {
		moved[strings.Replace(name, "sys/fs/cgroup", "cg", 1)] = text
	}
	if c, err := (Reader{Root: tree(t, proc, moved), Cgroup: "cg"}).Read(); err != nil || c.CPUSeconds != 2.5 {
		t.Errorf("got %g CPU seconds and %v, want 2.5", c.CPUSeconds, err)
	}
}

func TestReadWithoutCPUCountersIsAnError(t *testing.T) {
	for _, row := range []struct {
		name   string
		layers []map[string]string
	}{
		{"no /proc/stat", []map[string]string{v1}},
		{"garbage in /proc/stat", []map[string]string{{"proc/stat": "cpu x y"}}},
		{"a v1 quota without usage", []map[string]string{proc, {"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000"}}},
		{"a v2 cap without usage", []map[string]string{proc, {"sys/fs/cgroup/cpu.max": "max 100000"}}},
	} {
		if _, err := (Reader{Root: tree(t, row.layers...)}).Read(); err == nil {
			t.Errorf("%s: no error", row.name)
		}
	}
}

func TestReadThisMachine(t *testing.T) {
	a, err := Reader{}.Read()
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(50 * time.Millisecond); time.Now().Before(deadline); { // use some CPU
	}
	b, err := Reader{}.Read()
	if err != nil {
		t.Fatal(err)
	}
	if a.CPUSeconds <= 0 || a.MemoryBytes <= 0 || a.MachineSeconds <= 0 || b.SelfCPUSeconds <= a.SelfCPUSeconds {
		t.Errorf("implausible: %+v", a)
	}
	u, ok := Use(plan.Host{Name: "here", CPUs: 1}, a, b)
	if !ok || u.CPUSeconds < 0 || u.MemoryRatio <= 0 {
		t.Errorf("implausible use: %+v", u)
	}
}

func TestUse(t *testing.T) {
	base := Counters{
		UnixNano: 50e9, MonotonicNano: 1e9, Kind: "cgroup", CPUSeconds: 10, StealSeconds: 1, MachineSeconds: 100,
		Periods: 100, Throttled: 10, PSICPUSeconds: 5, PSIIOSeconds: -1, DiskBusySeconds: -1,
		RxBytes: 1000, TxBytes: 1000, ListenOverflows: 5, OOMKills: 1,
	}
	after := base
	after.UnixNano, after.MonotonicNano = 90e9, 11e9 // the wall clock jumped by 30 s
	after.CPUSeconds, after.StealSeconds, after.MachineSeconds = 14, 3, 120
	after.Periods, after.Throttled, after.PSICPUSeconds = 200, 60, 8
	after.RxBytes, after.TxBytes, after.ListenOverflows, after.OOMKills = 1000+12_500_000, 1500, 7, 2
	after.MemoryBytes = 256 << 20
	host := plan.Host{Name: "app", Roles: []string{"app"}, CPUs: 0.5, MemoryMiB: 512, LinkMbps: 100}

	u, ok := Use(host, base, after)
	want := Unknown(host)
	want.CPURatio, want.CPUSeconds, want.StealRatio, want.ThrottledRatio = 0.8, 4, 0.1, 0.5
	want.PSICPURatio, want.MemoryRatio, want.NetMbps = 0.3, 0.5, 10
	want.ListenOverflows, want.OOMKills = 2, 1
	if diff := cmp.Diff(want, u, cmpopts.EquateApprox(0, 1e-9)); !ok || diff != "" {
		t.Errorf("ok %t (-want +got):\n%s", ok, diff)
	}

	for _, row := range []struct {
		name   string
		change func(*Counters)
	}{
		{"the same reading twice", func(c *Counters) { *c = base }},
		{"the host restarted", func(c *Counters) { c.CPUSeconds = 0.1 }},
		{"another kind of counter", func(c *Counters) { c.Kind = "proc" }},
	} {
		b := after
		row.change(&b)
		if u, ok := Use(host, base, b); ok || u.CPURatio != 0 || u.Samples != 0 {
			t.Errorf("%s: %+v, want no data", row.name, u)
		}
	}
}

func TestHandlerWantsTheToken(t *testing.T) {
	server := httptest.NewServer(Handler(Reader{Root: tree(t, proc)}, "secret"))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	for _, token := range []string{"", "wrong", "secret2"} {
		if _, err := Fetch(context.Background(), http.DefaultClient, address, token); err == nil || !strings.Contains(err.Error(), "401") {
			t.Errorf("token %q: %v, want a 401", token, err)
		}
	}
	before := time.Now()
	r, err := Fetch(context.Background(), http.DefaultClient, address, "secret")
	if err != nil {
		t.Fatal(err)
	}
	if r.Counters.ListenOverflows != 42 || r.At.Before(before) || r.At.After(time.Now()) {
		t.Errorf("got %+v", r)
	}
	if r.ClockOffset.Abs() > r.RoundTrip+time.Millisecond {
		t.Errorf("this machine's clock is %s off itself, round trip %s", r.ClockOffset, r.RoundTrip)
	}
}

func BenchmarkRead(b *testing.B) {
	for b.Loop() {
		if _, err := (Reader{}).Read(); err != nil {
			b.Fatal(err)
		}
	}
}
