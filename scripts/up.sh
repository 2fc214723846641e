#!/usr/bin/env bash
# up.sh STACK: brings a stack up and prints its table. A new stack whose
# loadtest.singleStep names a row is brought up without its cluster first, and that
# row measured; then as its file says. So make up is one command, and what it
# leaves is what pulumi up would.
set -euo pipefail
cd "$(dirname "$0")/.."

stack=${1:?usage: up.sh STACK}

bring_up() { bin/pulumi up --yes --skip-preview --stack "$stack" "$@"; }

bin/pulumi stack select --create "$stack"
single=$(bin/pulumi config get --path lab:loadtest.singleStep --stack "$stack" 2>/dev/null || true)
if [ -n "$single" ] && ! bin/pulumi stack output inputsDigest --stack "$stack" >/dev/null 2>&1; then
  echo "Two rows: \"$single\", about 5 minutes, then the stack as it is, about 7."
  if [ -e .toolchain/built ] && [ ! -e .toolchain/kubernetes/sources ]; then
    echo "Before the second, what the cluster needs is built, once: up to 35 CPU minutes."
  fi
  first=.lab/Pulumi.$stack.single.yaml
  cp "Pulumi.$stack.yaml" "$first"
  set_first() { bin/pulumi config set --config-file "$first" --stack "$stack" --path "$1" "$2"; }
  set_first lab:infra.cluster.distribution none
  set_first lab:loadtest.step "$single"
  bring_up --config-file "$first"
fi
bring_up
echo
.toolchain/bin/lab table "results/$stack.jsonl"
