// Package nspawn keeps Debian machines on this computer: systemd-nspawn
// containers with systemd and sshd inside, on a bridge in a network namespace
// of their own, each with its disk (an overlay on one shared base tree), its
// address, its cgroup and its caps.
//
// Everything is idempotent and may be interrupted anywhere: the next Up or Down
// carries on. What a stack leaves on the computer is named after its network:
// the network namespace, the cgroups NETWORK-MACHINE in every hierarchy, the
// record /run/lab/NETWORK.json, and the folders below the state folder.
//
// Inside a machine its own cgroup is the root of /sys/fs/cgroup/HIERARCHY, so a
// process there reads its cap and its use at cpu/cpu.cfs_quota_us,
// cpuacct/cpuacct.usage and memory/memory.usage_in_bytes (cgroup v1), or at
// cpu.max, cpu.stat and memory.current (v2).
package nspawn
