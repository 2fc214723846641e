#!/usr/bin/env bash
# Every test of every module. In CI a skipped test is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=

# One package after the other: to a load test on real machines another package's
# tests are foreign work on its CPUs, which makes its result invalid, and the
# engine's own tests offer rates that a busy machine can't hold.
for module in tools/pulumi tools/bench tools/chart tools/labkube tools/pulumi-kubernetes .; do
  like_the_plugin=() # as it is built, so that nothing of it is compiled twice
  [ "$module" != tools/pulumi-kubernetes ] || like_the_plugin=(-trimpath)
  (cd "$module" && go test "${like_the_plugin[@]}" -p 1 -timeout 60m -v ./... 2>&1) | tee -a "$log" | grep -v '^=== \|^    --- PASS\|^--- PASS' ||
    failed="$failed $module"
done
[ -z "$failed" ] || {
  echo "failed in:$failed" >&2
  exit 1
}
if [ -n "${CI:-}" ] && grep -q -- '--- SKIP' "$log"; then
  grep -- '--- SKIP' "$log" >&2
  echo "a skipped test is a failure in CI" >&2
  exit 1
fi
