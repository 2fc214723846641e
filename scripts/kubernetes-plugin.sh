#!/usr/bin/env bash
# Pulumi's Kubernetes plugin, built from its Go module when it is first started: the
# engine starts it for a stack that has resources of it, and for no other. The
# toolchain puts a link to this file where the engine looks. --build only builds.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

# The tag of the commit that tools/pulumi-kubernetes/go.mod names, and what the
# program asks for (workloads/kubernetes.go).
version=4.25.0
module=github.com/pulumi/pulumi-kubernetes/provider/v4
source=$PWD/tools/pulumi-kubernetes
out=$PWD/.toolchain/kubernetes
progress=toolchain
# shellcheck source=scripts/progress.sh
. scripts/progress.sh

# build makes the plugin where what it is made from is not what it was made from.
build() {
  local sources shipped
  mkdir -p "$out"
  exec 9>"$out/lock" # another pulumi may be at it
  flock 9
  sources=$(cat scripts/{kubernetes-plugin,progress}.sh "$source"/{go.mod,go.sum,main.go} | sha256sum)
  [ "$sources" != "$(cat "$out/sources" 2>/dev/null)" ] || return 0
  cd "$source"
  go mod download "$module"
  shipped=$(go list -m -f '{{.Dir}}' "$module")/cmd/pulumi-resource-kubernetes
  sed "1s/{/{\"version\": \"$version\",/" "$shipped/schema.json" >embedded/schema.json
  cp --no-preserve=mode "$shipped/terraform-mapping.json" embedded/
  go_build 'plugin kubernetes (about 13 CPU minutes)' "$out/pulumi-resource-kubernetes" . "-X $module/pkg/version.Version=$version"
  echo "$sources" >"$out/sources"
}

(build >&2)
[ "${1:-}" = --build ] || exec "$out/pulumi-resource-kubernetes" "$@"
