#!/bin/bash
# On the first server: a node as the cluster has it: Ready, labelled, open for pods.
# Undone, it is drained and deleted; one that is dead would never be drained.
# in: node address version sum labels taints drain_seconds
set -euo pipefail

if [ -n "${lab_undo:-}" ]; then
  if ! api_answers >/dev/null 2>&1; then
    log "the API does not answer: there is no cluster that ${node:?} could be removed from"
    exit 0
  fi
  if ! has_node "${node:?}"; then exit 0; fi
  if node_is_ready "$node" >/dev/null; then
    drain "$node" "${drain_seconds:?}"
  else
    log "$node is not Ready: deleted without a drain"
  fi
  kubectl delete node "$node" >&2
  exit 0
fi

# stale OLD NEW: what takes away, of the lines of OLD, those that NEW has no more.
stale() { awk 'NR == FNR { keep[$0]; next } $0 != "" && !($0 in keep) { print $0 "-" }' <(printf '%s\n' "$2") <(printf '%s\n' "$1"); }

wait_for 120 "node ${node:?}" node_is_ready "$node" "${version?}"

# What the configuration gave before and gives no more goes; all else of the node stays.
had_labels=$(annotation "$node" lab-labels | tr ' ' '\n')
had_taints=$(annotation "$node" lab-taints | tr ' ' '\n')
has_taints=$(kubectl get node "$node" --output='jsonpath={range .spec.taints[*]}{.key}:{.effect}{"\n"}{end}')
key='s/=.*//' key_and_effect='s/=[^:]*:/:/'
mapfile -t set_labels < <(printf '%s' "${labels?}")
mapfile -t set_taints < <(printf '%s' "${taints?}")
mapfile -t drop_labels < <(stale "$(sed "$key" <<<"$had_labels")" "$(sed "$key" <<<"$labels")")
# A taint that the node has not can't be taken away: a run that was cut may have done it.
mapfile -t drop_taints < <(stale "$(sed "$key_and_effect" <<<"$had_taints")" "$(sed "$key_and_effect" <<<"$taints")" |
  grep -Fx -f <(awk '{ print $0 "-" }' <<<"$has_taints") || true)
if [ $((${#set_labels[@]} + ${#drop_labels[@]})) -gt 0 ]; then
  kubectl label node "$node" --overwrite "${set_labels[@]}" "${drop_labels[@]}" >&2
fi
if [ $((${#set_taints[@]} + ${#drop_taints[@]})) -gt 0 ]; then
  kubectl taint node "$node" --overwrite "${set_taints[@]}" "${drop_taints[@]}" >&2
fi
kubectl annotate node "$node" --overwrite "lab-binary=${sum:?}" "lab-address=${address:?}" \
  "lab-labels=$(tr '\n' ' ' <<<"$labels")" "lab-taints=$(tr '\n' ' ' <<<"$taints")" >&2
kubectl uncordon "$node" >&2
