#!/bin/bash
# Runs the load test as a systemd unit and follows it: a cut connection loses
# nothing, and a second run of this script attaches to the first one's load. Its
# only standard output is the result.
# in: run_id plan max_seconds
set -euo pipefail

dir=/var/lib/lab/runs/${run_id:?}
unit=lab-load-$run_id
result=$dir/result.json
install -d -m 700 "$dir"

# Another run's load would be measured with ours.
for other in $(systemctl list-units --plain --no-legend --state=active 'lab-load-*' | awk '{ print $1 }'); do
  [ "$other" = "$unit.service" ] || {
    log "stopping the load of an earlier change"
    systemctl stop "$other"
  }
done

if [ ! -e "$result" ] && ! systemctl is-active --quiet "$unit"; then
  write_if_changed "$dir/plan.json" 600 root:root "${plan:?}"
  systemctl reset-failed "$unit" 2>/dev/null || true
  systemd-run --quiet --unit="$unit" --property="RuntimeMaxSec=${max_seconds:?}" --property=LimitNOFILE=65536 \
    --property="StandardError=append:$dir/runner.log" \
    /usr/local/bin/lab-runner run --plan "$dir/plan.json" --out "$result"
fi

# follow: one line a step
shown=0
show() {
  local lines
  [ -e "$dir/result.log" ] || return 0
  lines=$(wc -l <"$dir/result.log")
  if [ "$lines" -gt "$shown" ]; then
    tail -n "+$((shown + 1))" "$dir/result.log" | head -n "$((lines - shown))" >&2
    shown=$lines
  fi
}
while systemctl is-active --quiet "$unit"; do
  show
  sleep 1
done
show

if [ ! -e "$result" ]; then
  log "the load generator ended without a result: $(tail -n 3 "$dir/runner.log" 2>/dev/null | tr '\n' ' '); run pulumi up again"
  exit 1
fi
# A run that was cut is no measurement. A target that did not answer is one.
if grep -q '"aborted":"' "$result" && ! grep -q '"aborted":"before any load' "$result"; then
  mv "$result" "$dir/aborted.json"
  reason=$(grep -oE '"aborted":"([^"\\]|\\.)*"' "$dir/aborted.json" | head -n 1)
  log "the run was cut: $(sed -E 's/^"aborted":"(.*)"$/\1/; s/\\"/"/g' <<<"$reason"); run pulumi up again"
  exit 1
fi
cat "$result"
