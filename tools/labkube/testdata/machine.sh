#!/bin/bash
# A machine's worth of namespaces on this computer: its own network, cgroup,
# processes and mounts, with empty folders where a node keeps its state. It says
# "ready", and ends with everything in it when it is killed.
# usage: machine.sh NETWORK-NAMESPACE FOLDER
set -euo pipefail

if [ "$1" != inside ]; then
  for hierarchy in /sys/fs/cgroup/*/; do
    mkdir -p "$hierarchy$1"
    for file in cpuset.cpus cpuset.mems; do # empty in a new group: no process may enter
      if [ -e "$hierarchy$file" ]; then cat "$hierarchy$file" >"$hierarchy$1/$file"; fi
    done
    echo $$ >"$hierarchy$1/cgroup.procs"
  done
  # nsenter, not `ip netns exec`: that one remounts /sys and hides the cgroups.
  exec nsenter --net="/run/netns/$1" unshare --cgroup --mount --pid --ipc --uts --fork --kill-child=KILL --mount-proc \
    bash "$0" inside "$1" "$2"
fi

hostname "$2"
for hierarchy in /sys/fs/cgroup/*/; do
  if [ -L "${hierarchy%/}" ]; then continue; fi # cpu → cpu,cpuacct
  options=$(findmnt --noheadings --first-only --output FS-OPTIONS "${hierarchy%/}")
  options=${options#rw,}
  umount "$hierarchy" # the same filesystem can't be mounted over itself
  case $options in
    *name=*) mount -t cgroup -o "none,${options##*,}" cgroup "$hierarchy" ;;
    nsdelegate* | rw | '') mount -t cgroup2 cgroup2 "$hierarchy" ;;
    *) mount -t cgroup -o "$options" cgroup "$hierarchy" ;;
  esac
done
mkdir -p "$3/lib"
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/log
mount --bind "$3/lib" /var/lib
mount --make-rshared /
echo ready
sleep infinity &
while :; do wait || true; done # as the first process, of others' children too
