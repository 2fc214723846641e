#!/bin/bash
# A server of the cluster.
# in: version pods token agent_token traefik
set -euo pipefail

# Letters, digits and, in a whole token, colons.
keep_token "token: \"${token:?}\"
agent-token: \"${agent_token:?}\""
write_machine
manifest=${data:?}/server/manifests/lab-traefik.yaml
if [ -n "${traefik?}" ]; then
  install -d -m 700 "$data/server" "${manifest%/*}"
  write_if_changed "$manifest" 600 root:root "$traefik" # k3s applies what is there
else
  rm -f "$manifest"
fi
start_node

# ready: as the administrator
wait_for 120 "the API" api_answers
if [ -n "${pods?}" ]; then
  wait_for 120 "the kubelet of ${node:?}" kubelet_listens
  wait_for 120 "node $node" node_is_ready "$node" "${version?}"
fi
tidy
log "$node is ready"
