#!/bin/bash
# An agent of the cluster.
# in: version token
set -euo pipefail

file=${etc:?}/config.yaml.d/10-lab-token.yaml
text="token: \"${token:?}\""
if [ -e "$file" ] && ! printf '%s\n' "$text" | cmp -s - "$file"; then
  # Another CA: the server was made anew. What this host has of the old cluster is
  # worth nothing without it.
  log "the cluster is another one: joining it anew"
  systemctl stop "${unit:?}" 2>/dev/null || true
  [ ! -d "${data:?}/agent" ] || find "$data/agent" -mindepth 1 -maxdepth 1 ! -name images ! -name containerd ! -name etc ! -name sysctls -exec rm -rf {} +
fi
write_if_changed "$file" 600 root:root "$text"
write_machine
start_node

# ready: as the node itself, which may read no other
wait_for 120 "the kubelet of ${node:?}" kubelet_listens
wait_for 180 "node $node" node_is_ready "$node" "${version?}"
tidy
log "$node is ready"
