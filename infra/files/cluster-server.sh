#!/bin/bash
# A server of the cluster.
# in: version pods token agent_token
set -euo pipefail

# Letters, digits and, in a whole token, colons.
keep_token "token: \"${token:?}\"
agent-token: \"${agent_token:?}\""
write_machine
start_node

# ready: as the administrator
wait_for 120 "the API" api_answers
if [ -n "${pods?}" ]; then
  wait_for 120 "the kubelet of ${node:?}" kubelet_listens
  wait_for 120 "node $node" node_is_ready "$node" "${version?}"
fi
tidy
log "$node is ready"
