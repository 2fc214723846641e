#!/usr/bin/env bash
# Every test of every module. In CI a skipped test is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=

# run MODULE PACKAGE…
run() {
  (cd "$1" && go test -timeout 60m -v "${@:2}" 2>&1) | tee -a "$log" | grep -v '^=== \|^    --- PASS\|^--- PASS' ||
    failed="$failed $1"
}

run tools/pulumi ./...
run tools/bench ./...
# go test runs packages side by side. To a load test on real machines another
# package's tests are foreign work on its CPUs, which makes its result invalid:
# what needs the machine to itself comes after the rest.
packages=$(go list ./...)
mapfile -t beside < <(grep -v '/e2e$' <<<"$packages")
run . "${beside[@]}"
run . ./e2e

[ -z "$failed" ] || {
  echo "failed in:$failed" >&2
  exit 1
}
if [ -n "${CI:-}" ] && grep -q -- '--- SKIP' "$log"; then
  grep -- '--- SKIP' "$log" >&2
  echo "a skipped test is a failure in CI" >&2
  exit 1
fi
