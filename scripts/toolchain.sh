#!/usr/bin/env bash
# Puts everything that `pulumi up` needs into .toolchain/: a pulumi of the
# required version from PATH is used as it is; else the pinned release is tried;
# else it is built from its Go modules.
set -euo pipefail
cd "$(dirname "$0")/.."

version=3.274.1
bin=$PWD/.toolchain/bin
mkdir -p "$bin"

say() { echo "toolchain: $*" >&2; }

# build NAME PACKAGE [LDFLAGS]: from tools/pulumi; quick when nothing changed.
build() {
  [ -e "$bin/$1" ] || say "building $1${3:+ (about 8 CPU minutes, once)}"
  (cd tools/pulumi && go build -trimpath -ldflags "-s -w ${3:-}" -o "$bin/$1" "$2")
}

# ours drops what was built for this machine, where an own pulumi is to be used.
from_path() {
  local found
  found=$(PATH=${PATH//$PWD\/bin:/} command -v pulumi) || return 1
  [ "$found" != "$PWD/bin/pulumi" ] || return 1
  case $("$found" version) in
    v3.*) ;;
    *)
      say "$found is $("$found" version), not v3: it is left alone"
      return 1
      ;;
  esac
  say "using $found with the official plugins"
  ln -sfn "$found" "$bin/pulumi"
  rm -f "$bin"/pulumi-language-go "$bin"/pulumi-resource-*
}

# release downloads the pinned release when its sha256 is in the repository.
release() {
  local arch sum dir
  arch=$(uname -m | sed 's/x86_64/x64/; s/aarch64/arm64/')
  sum=$(awk -v f="pulumi-v$version-linux-$arch.tar.gz" '$2 == f { print $1 }' tools/pulumi/release.sha256)
  [ -n "$sum" ] || return 1
  dir=$(mktemp -d)
  say "downloading pulumi v$version"
  if curl -fsSL --connect-timeout 5 --max-time 300 -o "$dir/p.tar.gz" \
    "https://github.com/pulumi/pulumi/releases/download/v$version/pulumi-v$version-linux-$arch.tar.gz" &&
    echo "$sum  $dir/p.tar.gz" | sha256sum --check --quiet &&
    tar -xzf "$dir/p.tar.gz" -C "$dir"; then
    install -m 755 "$dir"/pulumi/pulumi "$dir"/pulumi/pulumi-language-go "$bin/"
    rm -rf "$dir"
    return 0
  fi
  rm -rf "$dir"
  say "the release can't be had here"
  return 1
}

build_lab() { go build -trimpath -o "$bin/lab" ./cmd/lab; }

build_lab
if from_path; then
  exit 0
fi
if [ ! -e "$bin/pulumi" ] || [ -L "$bin/pulumi" ]; then
  rm -f "$bin/pulumi"
  release || true
fi
if [ ! -e "$bin/pulumi-language-go" ] || [ -e .toolchain/built ]; then
  start=$SECONDS
  build pulumi github.com/pulumi/pulumi/pkg/v3/cmd/pulumi \
    "-X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version=v$version"
  build pulumi-language-go ./pulumi-language-go
  build pulumi-resource-command ./pulumi-resource-command
  build pulumi-resource-random ./pulumi-resource-random
  touch .toolchain/built
  say "ready after $((SECONDS - start)) s"
fi
"$bin/pulumi" version >/dev/null
