#!/usr/bin/env bash
# Puts everything that `pulumi up` needs into .toolchain/: a pulumi of the
# required version from PATH is used as it is; else the pinned release is tried;
# else it is built from its Go modules.
set -euo pipefail
cd "$(dirname "$0")/.."

version=3.274.1
bin=$PWD/.toolchain/bin
home=$PWD/.toolchain/home # PULUMI_HOME where pulumi is built
mkdir -p "$bin"

say() { echo "toolchain: $*" >&2; }

# build LABEL FILE PACKAGE [LDFLAGS]: from tools/pulumi; quick when nothing changed.
build() {
  [ -e "$2" ] || say "building $1 …"
  (cd tools/pulumi && go build -trimpath -ldflags "-s -w ${4:-}" -o "$2" "$3")
}

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
    rm -rf "$bin/pulumi-language-go" "$home" .toolchain/built
    ln -sfn "$found" "$bin/pulumi" || exit 1
    return 0
  done < <(type -ap pulumi || true)
  return 1
}

# release downloads the pinned release when its sha256 is in the repository.
release() {
  local arch sum dir
  arch=$(uname -m)
  arch=${arch//x86_64/x64}
  arch=${arch//aarch64/arm64}
  sum=$(awk -v f="pulumi-v$version-linux-$arch.tar.gz" '$2 == f { print $1 }' tools/pulumi/release.sha256)
  if [ -z "$sum" ]; then
    say "no release for linux-$arch is pinned in tools/pulumi/release.sha256: building instead"
    return 1
  fi
  dir=$(mktemp -d)
  say "downloading pulumi v$version"
  if curl -fsSL --connect-timeout 5 --max-time 300 -o "$dir/p.tar.gz" \
    "https://github.com/pulumi/pulumi/releases/download/v$version/pulumi-v$version-linux-$arch.tar.gz" &&
    echo "$sum  $dir/p.tar.gz" | sha256sum --check --quiet &&
    tar -xzf "$dir/p.tar.gz" -C "$dir" &&
    install -m 755 "$dir"/pulumi/pulumi "$dir"/pulumi/pulumi-language-go "$bin/"; then
    rm -rf "$home" "$dir"
    return 0
  fi
  rm -rf "$dir"
  say "the release can't be had here"
  return 1
}

# from_modules builds pulumi, its language host and the plugins.
from_modules() {
  local start=$SECONDS plugin name
  touch .toolchain/built # first: what an interrupted build left is no release
  build 'pulumi CLI (about 8 CPU minutes)' "$bin/pulumi" github.com/pulumi/pulumi/pkg/v3/cmd/pulumi \
    "-X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version=v$version"
  build 'language host' "$bin/pulumi-language-go" ./pulumi-language-go
  # In the plugin cache, under the versions that the SDKs ask for.
  for plugin in command-v1.2.1 random-v4.18.2; do
    name=pulumi-resource-${plugin%-v*}
    mkdir -p "$home/plugins/resource-$plugin"
    build "plugin ${plugin%-v*}" "$home/plugins/resource-$plugin/$name" "./$name"
  done
  if [ "$((SECONDS - start))" -gt 10 ]; then
    say "ready after $((SECONDS - start)) s"
  fi
}

if from_path; then
  : # nothing to build
elif [ -e .toolchain/built ]; then
  from_modules # quick when current
elif [ ! -x "$bin/pulumi" ] || [ -L "$bin/pulumi" ]; then
  rm -f "$bin/pulumi"
  release || from_modules
fi
go build -trimpath -o "$bin/lab" ./cmd/lab
"$bin/pulumi" version >/dev/null
