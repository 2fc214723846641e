#!/usr/bin/env bash
# Every test of every module. In CI a skipped test is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

log=$(mktemp)
trap 'rm -f "$log"' EXIT
for module in tools/pulumi .; do
  (cd "$module" && go test -timeout 60m -v ./... 2>&1) | tee -a "$log" | grep -v '^=== \|^    --- PASS\|^--- PASS'
done
if [ -n "${CI:-}" ] && grep -q -- '--- SKIP' "$log"; then
  grep -- '--- SKIP' "$log" >&2
  echo "a skipped test is a failure in CI" >&2
  exit 1
fi
