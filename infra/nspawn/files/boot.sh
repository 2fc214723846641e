#!/bin/bash
# Starts a machine: this process becomes systemd-nspawn, in the machine's
# cgroups and in the network's namespace.
# CONTAINERS is a folder for a machine that may run containers, else empty.
# usage: boot.sh NETWORK NAME ROOT BRIDGE CONTAINERS CGROUP-FOLDER...
set -euo pipefail

network=$1 name=$2 root=$3 bridge=$4 containers=$5
shift 5
for folder in "$@"; do
  echo $$ >"$folder/cgroup.procs"
done
exec 3>&- # the lock on the machine: whoever kills the cgroups now ends this process

node=()
if [ -n "$containers" ]; then
  # A container's disk can't be an overlay on the machine's, which is one. The
  # kernel's messages are the whole computer's: a node of it sees none.
  node=(--capability=all --system-call-filter=@keyring --system-call-filter=bpf
    --bind="$containers:/var/lib/containerd" --bind=/dev/null:/dev/kmsg)
  # Not the rest: with a writable /sys systemd-networkd waits for a udev that a
  # container has not, and the machine gets no address.
  export SYSTEMD_NSPAWN_API_VFS_WRITABLE=network
fi

# nsenter, not `ip netns exec`: that one remounts /sys and hides the cgroups.
exec nsenter --net="/run/netns/$network" systemd-nspawn --quiet --boot --keep-unit --register=no --settings=no \
  --directory="$root" --machine="$network-$name" --hostname="$name" --network-bridge="$bridge" \
  --link-journal=no --resolv-conf=off --timezone=off --console=pipe "${node[@]}" </dev/null
