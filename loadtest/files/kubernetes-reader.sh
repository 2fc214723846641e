#!/bin/bash
# Before the sampler of a cluster's first server: an account by which it watches the
# cluster and can do nothing else, and its way in.
# in: kubectl manifest kubeconfig
set -euo pipefail

as_administrator() {
  local command
  read -ra command <<<"${kubectl:?}"
  timeout 30 "${command[@]}" --namespace kube-system "$@"
}
apply_manifest() { as_administrator apply --filename - <<<"${manifest:?}"; }
reader_secret() { as_administrator get secret lab-sampler --output="jsonpath={.data.$1}"; }
has_token() { [ -n "$(reader_secret token)" ]; }

wait_for 120 "the API" apply_manifest
wait_for 60 "the token of the account lab-sampler" has_token

# Not below /root or /home, which its unit does not let the sampler see.
write_if_changed "${kubeconfig:?}" 600 root:root "apiVersion: v1
kind: Config
clusters:
- {name: lab, cluster: {server: \"https://127.0.0.1:6443\", certificate-authority-data: $(reader_secret 'ca\.crt')}}
users:
- {name: lab-sampler, user: {token: $(reader_secret token | base64 -d)}}
contexts:
- {name: lab, context: {cluster: lab, user: lab-sampler}}
current-context: lab"
