#!/bin/bash
# A node's files and its unit, for a server and an agent alike.
# in: sum node address settings unit_text kubelet nameservers flannel_iface
#     cap_cpu_milli cap_memory_mib system_cpu_milli system_memory_mib
set -euo pipefail
: "${distribution:?}" "${home:?}" "${program:?}" "${current:?}" "${etc:?}" "${data:?}" "${unit:?}" "${sum:?}"

# resolver: whom pods ask for names outside of the cluster. The host's own list may
# hold an address that only the host can ask.
resolver() {
  local file found
  if [ -n "${nameservers?}" ]; then
    printf '%s\n' "$nameservers"
    return 0
  fi
  for file in /run/systemd/resolve/resolv.conf /etc/resolv.conf; do
    found=$(grep -shE '^nameserver ' "$file" | grep -vE '^nameserver (127\.|::1|0\.0\.0\.0)' | head -n 3 || true)
    if [ -n "$found" ]; then
      printf '%s\n' "$found"
      return 0
    fi
  done
  echo '# This host has no name server: an address that is nobody'\''s, as a DNS without any does not start.'
  echo 'nameserver 192.0.2.1'
}

# beyond_cap TOTAL CAP KEPT: what a container's kubelet has to keep from pods: what it
# sees of its computer beyond the cap, and what any machine keeps.
beyond_cap() { echo $(($1 > $2 ? $1 - $2 + $3 : $3)); }

write_machine() {
  local dir=$data/agent/etc/kubelet.conf.d memory iface
  write_if_changed "$dir/10-lab.conf" 644 root:root "${kubelet:?}"
  if [ -n "${cap_cpu_milli?}" ]; then
    memory=$(awk '$1 == "MemTotal:" { print int($2 / 1024) }' /proc/meminfo)
    write_if_changed "$dir/20-lab-machine.conf" 644 root:root "# Written by lab: of this computer, the machine has a part.
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
systemReserved:
  cpu: $(beyond_cap $(($(nproc --all) * 1000)) "$cap_cpu_milli" "${system_cpu_milli:?}")m
  memory: $(beyond_cap "$memory" "${cap_memory_mib:?}" "${system_memory_mib:?}")Mi"
  fi
  if [ "$distribution" = k3s ]; then
    iface=${flannel_iface:-$(ip -o -4 addr show | awk -v a="${address:?}" 'split($4, p, "/") && p[1] == a { print $2; exit }')}
    [ -n "$iface" ] || {
      log "no interface has the address $address"
      return 1
    }
    write_if_changed "$etc/config.yaml.d/20-lab-machine.yaml" 644 root:root "flannel-iface: $iface"
  fi
}

# keep_token TEXT: the token that a server began with is the one that its data can be
# read with: another one is not written over it.
keep_token() {
  local file=$etc/config.yaml.d/10-lab-token.yaml
  if [ -e "$file" ] && ! printf '%s\n' "$1" | cmp -s - "$file"; then
    log "$file holds another token than the stack's state: with it the cluster's data can't be read; put the first server back where it was in infra.hosts, restore the state, or take this host out of the cluster first"
    return 1
  fi
  write_if_changed "$file" 600 root:root "$1"
}

# start_node: the staged program, these files; started again only when one changed.
start_node() {
  local applied=/run/lab/$unit.applied before now
  [ "$(cat "$home/${sum:0:16}/sum")" = "$sum" ]
  ln -sfn "${sum:0:16}" "$home/.current"
  mv -fT "$home/.current" "$home/current"
  if [ ! -e "/usr/local/bin/$program" ] || [ -L "/usr/local/bin/$program" ]; then
    ln -sfn "$current" "/usr/local/bin/$program"
  fi
  write_if_changed "$etc/resolv.conf" 644 root:root "$(resolver)"
  write_if_changed "$etc/config.yaml" 644 root:root "${settings:?}"
  write_if_changed "/etc/systemd/system/$unit" 644 root:root "${unit_text:?}"
  # Not what the distribution itself writes beside them.
  now=$(sha256sum "$home/current/sum" "/etc/systemd/system/$unit" "$etc/config.yaml" "$etc/resolv.conf" \
    "$etc"/config.yaml.d/*-lab-* "$data"/agent/etc/kubelet.conf.d/*-lab*.conf)
  systemctl daemon-reload
  systemctl enable --quiet "$unit"
  if systemctl is-active --quiet "$unit" && [ "$now" = "$(cat "$applied" 2>/dev/null)" ]; then
    return 0
  fi
  before=$(systemctl show --property=InvocationID --value "$unit")
  log "starting $unit"
  systemctl reset-failed "$unit" 2>/dev/null || true # counts its ends anew; one that was never loaded has none
  systemctl restart --no-block "$unit" 9>&-
  started_after "$before"
  printf '%s\n' "$now" >"$applied"
}

# started_after INVOCATION: it runs, and not in the invocation that it had. One that
# ends again and again is given up early.
started_after() {
  local deadline=$((SECONDS + 240))
  until [ "$(systemctl show --property=InvocationID --value "$unit")" != "$1" ] && systemctl is-active --quiet "$unit"; do
    if [ "$(systemctl show --property=NRestarts --value "$unit")" -ge 5 ]; then
      log "$unit ends again and again"
      return 1
    elif [ "$SECONDS" -ge "$deadline" ]; then
      log "$unit is not up: $(systemctl show --property=ActiveState,SubState "$unit" | tr '\n' ' ')"
      return 1
    fi
    sleep 0.3
  done
}

# kubelet_listens: of this start, as the cluster remembers the last one's Ready.
kubelet_listens() { (exec 3<>/dev/tcp/127.0.0.1/10248) 2>/dev/null; }

# tidy removes the programs that no node of this host runs any more.
tidy() { find "$home" -mindepth 1 -maxdepth 1 -type d ! -name "${sum:0:16}" -exec rm -rf {} +; }

# remove_node ends everything of the node on this host.
remove_node() {
  local pid mount link
  systemctl disable --now --quiet "$unit" 2>/dev/null || true # it may be gone already
  # Pods outlive the unit.
  while read -r pid; do
    kill -KILL "$pid" 2>/dev/null || true # it may have ended
  done < <(grep -lsE "/kubepods|/$unit" /proc/[0-9]*/cgroup | cut -d/ -f3 || true)
  while read -r mount; do
    umount -l "$mount" || true # below one that is gone
  done < <(awk -v a="$data/" -v b=/var/lib/kubelet/ -v c="/run/$program/" \
    'index($2, a) == 1 || index($2, b) == 1 || index($2, c) == 1 { print $2 }' /proc/mounts | sort -r)
  for link in cni0 flannel.1 flannel-wg; do
    ip link delete "$link" 2>/dev/null || true # not every one has it
  done
  rm -rf "/etc/systemd/system/$unit" "${etc:?}" "${data:?}" "$home" "/run/lab/$unit.applied" /var/lib/kubelet "/run/$program"
  if [ -L "/usr/local/bin/$program" ]; then rm "/usr/local/bin/$program"; fi
  if [ "$distribution" = k3s ]; then rm -rf /etc/rancher/node; fi # the name's password in the cluster that was
  systemctl daemon-reload
  log "removed $unit with its data"
}

if [ -n "${lab_undo:-}" ]; then
  remove_node
  exit 0
fi
