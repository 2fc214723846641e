#!/usr/bin/env bash
# Puts everything that `pulumi up` needs into .toolchain/: a pulumi of the
# required version from PATH is used as it is, with the official plugins. Else the
# CLI is the pinned release or, where that can't be had, built from its Go modules;
# its language host and plugins are built here, so that go.sum vouches for them.
set -euo pipefail
cd "$(dirname "$0")/.."

version=3.274.1
bin=$PWD/.toolchain/bin
home=$PWD/.toolchain/home # PULUMI_HOME where the plugins are built
mkdir -p "$bin"

progress=toolchain
# shellcheck source=scripts/progress.sh
. scripts/progress.sh

# build NAME FILE PACKAGE [LDFLAGS]: from tools/pulumi.
build() { (cd tools/pulumi && go_build "$@"); }

# usable VERSION: is it at least 3.150 and below 4, as Pulumi.yaml asks?
usable() {
  local minor
  [[ $1 =~ ^v?3\.([0-9]+)\. ]] || return 1
  minor=${BASH_REMATCH[1]}
  [ "$minor" -ge 150 ]
}

# from_path takes the operator's own pulumi, and drops what was built instead.
from_path() {
  local found has
  while read -r found; do
    case $found in "$PWD"/*) continue ;; esac
    has=$("$found" version 2>/dev/null || true)
    if ! usable "$has"; then
      say "$found is ${has:-broken}, not 3.150 or later: it is left alone"
      continue
    fi
    say "using $found ($has) with the official plugins"
    rm -rf "$bin/pulumi-language-go" "$home" .toolchain/kubernetes .toolchain/built .toolchain/release
    ln -sfn "$found" "$bin/pulumi" || exit 1
    return 0
  done < <(type -ap pulumi || true)
  return 1
}

# cli puts pulumi itself there.
cli() {
  if [ -L "$bin/pulumi" ]; then # to one from PATH that is gone
    rm -f "$bin/pulumi"
  fi
  if cmp -s tools/pulumi/release.sha256 .toolchain/release && [ -x "$bin/pulumi" ]; then
    return 0
  fi
  if [ ! -x "$bin/pulumi" ] || [ -e .toolchain/release ]; then
    rm -f .toolchain/release "$bin/pulumi"
    if scripts/release.sh "$bin"; then
      cp tools/pulumi/release.sha256 .toolchain/release
      return 0
    fi
  fi
  build 'pulumi CLI (about 8 CPU minutes)' "$bin/pulumi" github.com/pulumi/pulumi/pkg/v3/cmd/pulumi \
    "-X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version=v$version"
}

# plugins builds the language host and the plugins.
plugins() {
  local plugin name
  touch .toolchain/built # first: for bin/pulumi, also after an interrupted build
  build 'language host' "$bin/pulumi-language-go" ./pulumi-language-go
  # In the plugin cache, under the versions that the SDKs ask for.
  for plugin in command-v1.2.1 random-v4.18.2; do
    name=pulumi-resource-${plugin%-v*}
    mkdir -p "$home/plugins/resource-$plugin"
    build "plugin ${plugin%-v*}" "$home/plugins/resource-$plugin/$name" "./$name"
  done
  # The largest one is built by who starts it first: a stack with a cluster.
  plugin=$home/plugins/resource-kubernetes-v$(sed -n 's/^version=//p' scripts/kubernetes-plugin.sh)
  mkdir -p "$plugin"
  ln -sfn "$PWD/scripts/kubernetes-plugin.sh" "$plugin/pulumi-resource-kubernetes"
}

if ! from_path; then
  cli
  plugins
fi
scripts/lab.sh
"$bin/pulumi" version >/dev/null
if [ "$SECONDS" -gt 10 ]; then
  say "ready after $SECONDS s"
fi
