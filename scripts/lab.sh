#!/usr/bin/env bash
# Builds .toolchain/bin/lab of this checkout and tells it which commit that is:
# every row of a ledger says which lab measured it. Go's own stamp is off where
# GOFLAGS says so, and calls every checkout modified whose stack has settings.
set -euo pipefail
cd "$(dirname "$0")/.."

version=unknown
if revision=$(git rev-parse --short=12 HEAD 2>/dev/null); then
  version=$revision
  [ -z "$(git status --porcelain -- . ':!Pulumi.*.yaml')" ] || version+=+changed
fi
mkdir -p .toolchain/bin
go build -trimpath -ldflags "-X main.builtFrom=$version" -o .toolchain/bin/lab ./cmd/lab
