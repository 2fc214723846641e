#!/bin/bash
# The demo workload runs elsewhere: its units on this host, if it ever had any, end.
set -euo pipefail

for part in web worker beat; do
  if systemctl cat "lab-app@$part" >/dev/null 2>&1; then
    systemctl disable --now --quiet "lab-app@$part"
    rm -f "/run/lab/lab-app@$part.applied"
  fi
done

# ready: none of it runs
none_runs() { ! systemctl is-active lab-app@web lab-app@worker lab-app@beat | grep -x -e active -e activating -e deactivating; }
wait_for 30 "the end of the app's units" none_runs
