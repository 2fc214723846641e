#!/bin/bash
# The program that a node will run, beside the one that it runs: its sum and its
# version are checked on every host before any node is touched.
# in: version sum copied url images images_sum images_name
set -euo pipefail
: "${distribution:?}" "${home:?}" "${program:?}" "${current:?}" "${data:?}" "${unit:?}" "${sum:?}"

stage=$home/${sum:0:16}

unstage() { # status
  rm -rf "$work"
  explain_failure "$1"
}

fill() { # the new folder's name
  fetch "${copied?}" "${url?}" "$1/fetched"
  check_sum "$1/fetched" "$sum" "$program from ${url:-the given file}" infra.cluster
  if [ "$distribution" = labkube ]; then
    tar -xf "$1/fetched" -C "$1" --no-same-owner
    rm "$1/fetched"
  else
    mv "$1/fetched" "$1/$program"
    chmod 755 "$1/$program"
    [ "$(version_of "$1/$program")" = "${version:?}" ] || {
      log "the file is not k3s $version for this machine: $(timeout 60 "$1/$program" --version 2>&1 | head -n 1 | head -c 200): nothing was replaced"
      return 1
    }
  fi
  [ -x "$1/$program" ] || {
    log "what came holds no $program: nothing was replaced"
    return 1
  }
  printf '%s\n' "$sum" >"$1/sum"
}

unit_file=/etc/systemd/system/$unit
if [ -e "$unit_file" ] && ! grep -q '^# Written by lab' "$unit_file"; then
  log "$unit is there and not lab's: remove it first, or take this host out of the cluster"
  exit 1
fi
for other in k3s.service k3s-agent.service labkube.service labkube-agent.service; do
  if [ "$other" != "$unit" ] && systemctl cat "$other" >/dev/null 2>&1; then
    log "this host has $other, and would get $unit beside it: take its role away, bring that up, then give it the new one; nothing was touched"
    exit 1
  fi
done
if [ "$distribution" = labkube ]; then
  install_packages runc containernetworking-plugins nftables conntrack iproute2
elif [ -z "$(ip route show default)" ]; then
  log "k3s does not start without a default route: add one, to a gateway that need not answer"
  exit 1
fi

install -d -m 755 "$home"
if [ "$(cat "$stage/sum" 2>/dev/null)" != "${sum:?}" ]; then
  rm -rf "$stage"
  work=$(mktemp -d "$home/.new.XXXXXX")
  trap 'unstage $?' EXIT
  chmod 755 "$work"
  fill "$work"
  mv -T "$work" "$stage"
  log "staged $program ${version?}"
fi
if [ "$distribution" = k3s ] && [ -x "$current" ]; then
  check_step "$(version_of "$current")" "$version"
fi

if [ "$distribution" = labkube ]; then
  install -d -m 755 "$data/agent/images"
  install -m 644 "$stage/pause.tar" "$data/agent/images/lab-pause.tar"
fi
if [ -n "${images?}" ]; then
  check_sum "$images" "${images_sum:?}" "the archive of images" infra.cluster
  install -d -m 755 "$data/agent/images"
  cmp -s "$images" "$data/agent/images/${images_name:?}" || install -m 644 "$images" "$data/agent/images/$images_name"
fi

# ready: what the node will be started from
[ -x "$stage/$program" ]
