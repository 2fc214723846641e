#!/bin/bash
# Starts a machine: this process becomes systemd-nspawn, in the machine's
# cgroups and in the network's namespace.
# usage: boot.sh NETWORK NAME ROOT BRIDGE CGROUP-FOLDER...
set -euo pipefail

network=$1 name=$2 root=$3 bridge=$4
shift 4
for folder in "$@"; do
  echo $$ >"$folder/cgroup.procs"
done
exec 3>&- # the lock on the machine: whoever kills the cgroups now ends this process

# nsenter, not `ip netns exec`: that one remounts /sys and hides the cgroups.
exec nsenter --net="/run/netns/$network" systemd-nspawn --quiet --boot --keep-unit --register=no --settings=no \
  --directory="$root" --machine="$network-$name" --hostname="$name" --network-bridge="$bridge" \
  --link-journal=no --resolv-conf=off --timezone=off --console=pipe </dev/null
