#!/bin/bash
# What the scripts of a cluster begin with.
# in: distribution home program etc data kubeconfig unit
set -euo pipefail

current=${home:?}/current/${program:?}

# explain_failure STATUS: an error ends with what the node's unit said.
explain_failure() {
  if [ "$1" != 0 ] && systemctl cat "${unit:?}" >/dev/null 2>&1; then
    log "the last lines of $unit:"
    journalctl --unit="$unit" --lines=15 --output=cat --no-pager >&2 || true
  fi
}
trap 'explain_failure $?' EXIT

kubectl() { timeout 30 "$current" kubectl --kubeconfig "${kubeconfig:?}" "$@"; }

api_answers() { kubectl get --raw /readyz; }

# has_node NODE: does the cluster know it?
has_node() { [ -n "$(kubectl get node "$1" --ignore-not-found --output=name)" ]; }

# annotation NODE KEY: nothing when it has none.
annotation() { kubectl get node "$1" --output="jsonpath={.metadata.annotations.$2}"; }

# node_is_ready NODE VERSION: Ready, and of that version unless it is empty.
node_is_ready() {
  local got
  got=$(kubectl get node "$1" --output='jsonpath={.status.conditions[?(@.type=="Ready")].status} {.status.nodeInfo.kubeletVersion} {.status.conditions[?(@.type=="Ready")].message}')
  echo "Ready, version and message are: $got"
  [[ $got == "True ${2:-} "* || (-z ${2:-} && $got == "True "*) ]]
}

# drain NODE SECONDS: its pods end in order and come up elsewhere.
drain() {
  log "draining $1"
  timeout $(($2 + 20)) "$current" kubectl --kubeconfig "${kubeconfig:?}" drain "$1" \
    --ignore-daemonsets --delete-emptydir-data --timeout="${2}s" >&2
}

# minor VERSION: 36 of v1.36.4+k3s1
minor() {
  local rest=${1#v1.}
  echo "${rest%%.*}"
}

# version_of FILE: what a k3s says that it is; nothing when it is none, or does not run.
version_of() { timeout 60 "$1" --version 2>/dev/null | awk 'NR == 1 && $1 == "k3s" && $2 == "version" { print $3 }' || true; }

# check_step FROM TO: a cluster goes up by one minor version at a time, and never back
# (https://kubernetes.io/releases/version-skew-policy/).
check_step() {
  local from to
  if [ -z "$1" ]; then return 0; fi
  from=$(minor "$1") to=$(minor "$2")
  if [ "$to" -gt $((from + 1)) ]; then
    log "this host runs $1, and $2 skips a minor version: go to v1.$((from + 1)) first; nothing was touched"
    return 1
  elif [ "$to" -lt "$from" ]; then
    log "this host runs $1, and $2 is older, which Kubernetes' data may not survive: go back by a backup; nothing was touched"
    return 1
  fi
}
