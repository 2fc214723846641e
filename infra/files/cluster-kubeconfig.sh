#!/bin/bash
# On the first server: every declared node is Ready; then the administrator's
# kubeconfig, the only thing printed.
# in: nodes version
set -euo pipefail

missing=()
for node in ${nodes?}; do
  (wait_for 60 "node $node" node_is_ready "$node" "${version?}") || missing+=("$node")
done
if [ ${#missing[@]} -gt 0 ]; then
  log "not Ready: ${missing[*]}"
  exit 1
fi
cat "${kubeconfig:?}"
