#!/bin/bash
# On the first server: everything that the chart declares is rolled out and answers by
# the way that requests take; if not, which pod is not ready, and why.
# in: kubectl namespace seconds url answer
set -euo pipefail

read -ra command <<<"${kubectl:?}"
in_namespace() { timeout 30 "${command[@]}" --namespace "${namespace:?}" "$@"; }

# parts: what is waited for, a line each; a part whose pods are replaced by hand is not.
parts() {
  in_namespace get deployments --output=name
  in_namespace get statefulsets,daemonsets --output='jsonpath={range .items[?(@.spec.updateStrategy.type=="RollingUpdate")]}{.kind}/{.metadata.name}{"\n"}{end}'
}

# not_ready_pods: a line each with what the scheduler and its containers say.
not_ready_pods() {
  local scheduler='{.status.conditions[?(@.type=="PodScheduled")].message}'
  local waiting='{.status.containerStatuses[*].state.waiting.reason} {.status.containerStatuses[*].state.waiting.message}'
  local ended='{.status.containerStatuses[*].lastState.terminated.reason} {.status.containerStatuses[*].lastState.terminated.exitCode}'
  in_namespace get pods --output="jsonpath={range .items[*]}{.metadata.name}{'\t'}{.status.conditions[?(@.type=='Ready')].status}{'\t'}{.status.phase}{'\t'}$scheduler{'\t'}$waiting{'\t'}$ended{'\n'}{end}" |
    awk -F '\t' '
      $1 == "" || $2 == "True" || $3 == "Succeeded" { next }
      { print $1 ": " $3 ($4 == "" ? "" : ", " $4) ($5 == " " ? "" : ", " $5) ($6 == " " ? "" : ", ended before: " $6) }'
}

# explain says which pods are not ready, what the first of them logged, and what the
# cluster says of it.
explain() {
  local pods first
  pods=$(not_ready_pods || true)
  log "not rolled out: $1"
  log "pods that are not ready: ${pods:-none}"
  first=${pods%%:*}
  if [ -n "$first" ]; then
    in_namespace logs "$first" --all-containers --tail=5 --prefix >&2 || true
  fi
  in_namespace get events --field-selector=type=Warning --sort-by=.lastTimestamp \
    --output='custom-columns=OBJECT:.involvedObject.name,REASON:.reason,MESSAGE:.message' --no-headers | tail -n 5 >&2 || true
}

deadline=$((SECONDS + ${seconds:?}))
all=$(parts)
for part in $all; do
  left=$((deadline - SECONDS))
  if ! timeout "$((left > 1 ? left : 1))" "${command[@]}" --namespace "$namespace" rollout status "$part" >&2; then
    explain "$part"
    exit 1
  fi
done

# ready: as a client, by the way that requests take
answers() {
  local status
  status=$(curl -sS -m 10 -o /dev/null -w '%{http_code}' "$1")
  echo "the last status is $status"
  [ "$2" = any ] || [ "$status" = "$2" ]
}
command -v curl >/dev/null || install_packages curl ca-certificates
wait_for 60 "the workload at ${url:?}" answers "$url" "${answer:?}"
log "ready at $url"
