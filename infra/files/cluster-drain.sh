#!/bin/bash
# On the first server: before a node gets another program, its pods go elsewhere.
# It stays closed to new ones until cluster-member.sh opens it again.
# in: node self address sum drain_seconds
set -euo pipefail

if [ ! -x "${current:?}" ]; then exit 0; fi # there is no cluster yet
if ! api_answers >/dev/null 2>&1; then
  if [ "${node:?}" = "${self:?}" ]; then exit 0; fi # its own start is what comes next
  log "the API does not answer: $node can't be drained"
  exit 1
fi
if ! has_node "$node"; then exit 0; fi
was=$(annotation "$node" lab-address)
if [ -n "$was" ] && [ "$was" != "${address:?}" ] && [ "$node" != "${self:?}" ]; then
  # The machine there is gone, and with it the password by which the node is known.
  log "$node was at $was: it joins anew from $address"
  kubectl delete node "$node" >&2
  exit 0
fi
runs=$(annotation "$node" lab-binary)
if [ -z "$runs" ] || [ "$runs" = "${sum:?}" ]; then exit 0; fi
if ! node_is_ready "$node" >/dev/null; then
  log "$node is not Ready: its pods can't be asked to end"
  exit 0
fi
others=$(kubectl get nodes --no-headers | awk -v node="$node" '$1 != node && $2 == "Ready"' | wc -l)
if [ "$others" = 0 ]; then
  log "$node is the only node that is Ready: its pods run on while it is upgraded"
  exit 0
fi
drain "$node" "${drain_seconds:?}"
