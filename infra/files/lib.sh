#!/bin/bash
# What every script on a host starts with.
# in: lab_script lab_timeout
set -Eeuo pipefail
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
umask 022
lab_script=${lab_script:?}
cd / # which other users may read

log() { echo "$(hostname): $*" >&2; }

# The text of a command, not its expansion: no secret shows.
trap 'log "$lab_script: status $? from: ${BASH_COMMAND%%$'\''\n'\''*}"' ERR

# One copy of a script at a time: after a cut connection the old one may be at work
# still, until its own timeout ends it. What a script starts does not inherit the lock.
install -d -m 700 /run/lab
exec 9>"/run/lab/$lab_script.lock"
if ! flock -w "${lab_timeout:?}" 9; then
  log "$lab_script: another copy of it is at work for more than $lab_timeout s"
  exit 75
fi

# install_packages NAME...: those that dpkg misses, from the host's own sources.
install_packages() {
  local missing=() p
  for p in "$@"; do
    dpkg-query -W -f='${db:Status-Status}\n' "$p" 2>/dev/null | grep -q '^installed$' || missing+=("$p")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  log "installing ${missing[*]}"
  (
    flock 8 # two scripts on one host
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=120 -o Dpkg::Options::=--force-confold "${missing[@]}" >/dev/null
  ) 8>/run/lab/apt.lock 9>&-
}

# fetch COPIED URL TO: a file that was copied to this host, or else a download.
fetch() {
  if [ -n "$1" ]; then
    cp "$1" "$3"
  else
    command -v curl >/dev/null || install_packages curl
    curl -fsSL --proto '=https' --proto-redir '=https' --retry 3 -m 240 -o "$3" "$2"
  fi
}

# check_sum FILE SHA256 WHAT KEY: before anything is replaced by the file.
check_sum() {
  local got
  got=$(sha256sum "$1" | cut -d' ' -f1)
  if [ "$got" != "$2" ]; then
    log "$3 has the sha256 $got, pinned is $2: nothing was replaced; correct $4 if the file is the right one"
    return 1
  fi
}

# write_if_changed PATH MODE OWNER TEXT: the whole new file or the old one, never a part.
write_if_changed() {
  local new
  install -d "$(dirname "$1")"
  new=$(mktemp "$(dirname "$1")/.lab.XXXXXX")
  if printf '%s\n' "$4" >"$new" && chmod "$2" "$new" && chown "$3" "$new" && ! cmp -s "$new" "$1"; then
    sync "$new"
    mv -f "$new" "$1"
    log "$lab_script: wrote $1"
  fi
  rm -f "$new"
  # The test above hides a full disk from errexit.
  printf '%s\n' "$4" | cmp -s - "$1" || {
    log "$lab_script: $1 could not be written: $(df -h --output=avail "$(dirname "$1")" | tail -n 1 | tr -d ' ') free"
    return 1
  }
}

# run_unit UNIT FILE...: enabled, running, and started after these files' last change,
# also when an earlier copy of the script was cut between writing them and the restart.
run_unit() {
  local unit=$1 applied="/run/lab/$1.applied" now
  shift
  now=$(sha256sum "$@")
  if systemctl is-active --quiet "$unit" && [ -e "$applied" ] && [ "$now" = "$(cat "$applied")" ]; then
    return 0
  fi
  systemctl daemon-reload
  log "$lab_script: starting $unit"
  systemctl restart "$unit" 9>&-
  printf '%s\n' "$now" >"$applied"
}

# start_again UNIT: comes up again by itself, also at a boot where the address is late.
start_again() {
  write_if_changed "/etc/systemd/system/$1.d/lab.conf" 644 root:root '[Unit]
StartLimitIntervalSec=0
[Service]
Restart=on-failure
RestartSec=2'
}

# wait_for SECONDS WHAT COMMAND...: the ready-check. Its last output tells why not.
wait_for() {
  local deadline=$((SECONDS + $1)) what=$2 out
  shift 2
  until out=$("$@" 2>&1); do
    if [ "$SECONDS" -ge "$deadline" ]; then
      log "$lab_script: $what is not ready: $(tail -c 500 <<<"$out")"
      return 1
    fi
    sleep 0.3
  done
}
