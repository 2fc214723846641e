#!/usr/bin/env bash
# Installs what this machine lacks, from its own apt sources. With the argument
# "test" also what only the tests need, with "bench" also the load generators that
# the built-in one is compared with.
set -euo pipefail

declare -A needs=(
  [mmdebstrap]=mmdebstrap [systemd-nspawn]=systemd-container [ip]=iproute2 [nsenter]=util-linux
  [curl]=curl [git]=git [make]=make
)
if [ "${1:-}" = test ]; then
  needs+=([shellcheck]=shellcheck [redis-server]=redis-server [nginx]=nginx [sshd]=openssh-server [node]=nodejs)
  needs+=([runc]=runc [nft]=nftables [conntrack]=conntrack [pgrep]=procps)
fi
if [ "${1:-}" = test ] || [ "${1:-}" = bench ]; then
  needs+=([wrk]=wrk [hey]=hey)
fi
PATH=$PATH:/usr/sbin:/sbin
missing=()
for command in "${!needs[@]}"; do
  command -v "$command" >/dev/null || missing+=("${needs[$command]}")
done
if [ "${1:-}" = test ] && ! compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null; then
  missing+=(postgresql)
fi
if [ "${1:-}" = test ] && [ ! -e /usr/lib/cni/ptp ]; then
  missing+=(containernetworking-plugins)
fi
command -v go >/dev/null || {
  echo "setup: there is no go on PATH; install Go 1.26 or later from go.dev/dl" >&2
  exit 1
}
[ ${#missing[@]} -gt 0 ] || exit 0
[ "$(id -u)" = 0 ] || {
  echo "setup: ${missing[*]} must be installed: run with sudo" >&2
  exit 1
}
echo "setup: installing ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { apt-get update && apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
  tail -20 "$log" >&2
  exit 1
fi
