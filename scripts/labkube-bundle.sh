#!/usr/bin/env bash
# Builds labkube and what runs beside it for an architecture, and packs it into one
# file whose bytes depend on nothing but the programs. Prints its path and sum.
set -euo pipefail
cd "$(dirname "$0")/.."

arch=${1:?usage: labkube-bundle.sh amd64|arm64}
GOARCH=$arch scripts/labkube.sh >&2
bundle=.lab/build/labkube-$arch.tar
mkdir -p "$(dirname "$bundle")"
tar -C .toolchain/labkube --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=755 -cf "$bundle.new" \
  labkube containerd containerd-shim-runc-v2 ctr coredns metrics-server pause.tar
mv -f "$bundle.new" "$bundle"
sum=$(sha256sum "$bundle" | cut -d' ' -f1)
printf '{"path": "%s", "sha256": "%s"}\n' "$bundle" "$sum"
