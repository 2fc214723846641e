#!/usr/bin/env bash
# release.sh FOLDER: puts the pinned pulumi release's CLI there, or fails within
# seconds where it can't be had. What has another sha256 than the one in
# tools/pulumi/release.sha256 is deleted unread. PULUMI_RELEASES is a mirror.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "toolchain: $*" >&2; }

arch=$(uname -m)
arch=${arch//x86_64/x64}
arch=${arch//aarch64/arm64}
read -r sum file < <(awk -v suffix="-linux-$arch.tar.gz" 'substr($2, length($2) - length(suffix) + 1) == suffix { print $1, $2 }' tools/pulumi/release.sha256) || {
  say "no release for linux-$arch is pinned in tools/pulumi/release.sha256"
  exit 1
}
url=${PULUMI_RELEASES:-https://get.pulumi.com/releases/sdk}/$file
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
say "trying $url"
curl -fsSL --connect-timeout 5 --speed-limit 1000 --speed-time 15 --max-time 600 -o "$dir/$file" "$url" || {
  say "the release can't be had here"
  exit 1
}
has=$(sha256sum "$dir/$file")
has=${has%% *}
[ "$has" = "$sum" ] || {
  say "$url has sha256 $has, but tools/pulumi/release.sha256 says $sum: deleted; check who changed it"
  exit 1
}
tar -xzf "$dir/$file" -C "$dir" pulumi/pulumi
install -D -m 755 "$dir/pulumi/pulumi" "$1/pulumi"
