// Package nspawn keeps Debian machines on this computer: systemd-nspawn
// containers with systemd and sshd inside, on a bridge in a network namespace
// of their own, each with its disk (an overlay on one shared base tree), its
// address, its cgroup and its caps. The machines of a network reach each other
// and nothing else.
//
// Everything is idempotent and may be killed anywhere: the next Up or Down
// carries on. What a network leaves on the computer is named after it: the
// network namespace, the cgroups NETWORK-MACHINE in every hierarchy, the record
// /run/lab/NETWORK.json, and the folders below the state folder.
//
// Inside a machine its own cgroup is the root of every hierarchy that has one,
// read-only, so that any process there reads the machine's caps and use. With
// cgroup v1:
//
//	/sys/fs/cgroup/cpu/cpu.cfs_quota_us, cpu.cfs_period_us   the cap
//	/sys/fs/cgroup/cpu/cpu.stat                              nr_throttled, throttled_time (ns)
//	/sys/fs/cgroup/cpuacct/cpuacct.usage                     CPU time used, ns
//	/sys/fs/cgroup/memory/memory.limit_in_bytes              the cap
//	/sys/fs/cgroup/memory/memory.usage_in_bytes              page cache included
//	/sys/fs/cgroup/memory/memory.oom_control                 oom_kill, a counter
//	/sys/fs/cgroup/unified/{cpu,io,memory}.pressure          where v2 is mounted beside v1
//
// With cgroup v2 alone: cpu.max, cpu.stat, memory.max, memory.current,
// memory.events and *.pressure in /sys/fs/cgroup. /proc/pressure, /proc/meminfo
// and /proc/stat are the whole computer's.
package nspawn
