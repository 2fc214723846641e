#!/usr/bin/env bash
# Builds labkube and what runs beside it into .toolchain/labkube/: static programs
# for GOARCH, of this machine's architecture if unset, and the archive of the pods'
# pause image. Quick when nothing changed.
set -euo pipefail
cd "$(dirname "$0")/.."

arch=${GOARCH:-$(go env GOARCH)}
out=$PWD/.toolchain/labkube
mkdir -p "$out"
export CGO_ENABLED=0 GOARCH=$arch

progress=labkube
# shellcheck source=scripts/progress.sh
. scripts/progress.sh

# build MODULE PACKAGE [LDFLAGS]: the program of that name; quick when nothing changed.
build() {
  local name=${2##*/}
  [ "$name" != . ] || name=labkube
  (cd "tools/labkube/$1" && go_build "$name" "$out/$name" "$2" "${3:-}")
}

# What a node says that it runs, as k3s's nodes do: whose build of Kubernetes it is.
version=$(cd tools/labkube && go list -m -f '{{.Version}}' k8s.io/kubernetes)
stamp=k8s.io/component-base/version
build . . "-X $stamp.gitVersion=$version+labkube -X $stamp.gitMajor=1 -X $stamp.gitMinor=$(cut -d. -f2 <<<"$version")"
for program in containerd containerd-shim-runc-v2 ctr; do
  build containerd "github.com/containerd/containerd/v2/cmd/$program"
done
build coredns github.com/coredns/coredns
build metrics-server sigs.k8s.io/metrics-server/cmd/metrics-server

env -u GOARCH -u CGO_ENABLED scripts/lab.sh
.toolchain/bin/lab image pause "$arch" >/dev/null
cp ".lab/build/pause-$arch.tar" "$out/pause.tar"
