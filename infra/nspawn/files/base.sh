#!/bin/bash
# Builds the tree that every machine starts from, and puts it in its place when
# it is whole.
# shellcheck disable=SC2016 # $1 in the hooks is mmdebstrap's
# usage: base.sh BUILDING TARGET SUITE PACKAGES < apt-sources
set -euo pipefail

building=$1 target=$2 suite=$3 packages=$4

# The computer's own way to the mirror, where it needs one.
proxy=()
for scheme in http https; do
  url=$(apt-config dump --format '%v%n' "Acquire::$scheme::Proxy" | head -n 1)
  [ -z "$url" ] || proxy+=(--aptopt="Acquire::$scheme::Proxy \"$url\"")
done

# Services come up when a machine's own setup asks for them, never by themselves.
mmdebstrap --mode=root --variant=minbase --format=directory --include="$packages" \
  --aptopt='APT::Install-Recommends "false"' \
  --aptopt='Acquire::Retries "3"' \
  "${proxy[@]}" \
  --dpkgopt='path-exclude=/usr/share/doc/*' \
  --dpkgopt='path-exclude=/usr/share/man/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' \
  --essential-hook='mkdir -p "$1/etc/postgresql-common"; echo "create_main_cluster = false" >"$1/etc/postgresql-common/createcluster.conf"' \
  "$suite" "$building" -

chroot "$building" systemctl disable --quiet nginx redis-server postgresql ssh.socket 2>/dev/null || true
chroot "$building" systemctl enable --quiet systemd-networkd ssh
chroot "$building" systemctl mask --quiet apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer \
  e2scrub_all.timer e2scrub_reap.service fstrim.timer systemd-networkd-wait-online.service getty@tty1.service \
  console-getty.service systemd-logind.service
rm -f "$building"/etc/ssh/ssh_host_* "$building/etc/resolv.conf" "$building/var/lib/dbus/machine-id"
: >"$building/etc/machine-id"
install -d -m 700 "$building/root/.ssh"
cat >"$building/etc/ssh/sshd_config.d/lab.conf" <<'CONF'
HostKey /etc/ssh/ssh_host_ed25519_key
PasswordAuthentication no
UseDNS no
MaxStartups 100
MaxSessions 100
CONF

# ready: what a machine can't do without
test -x "$building/usr/sbin/sshd"
test -x "$building/usr/lib/systemd/systemd"
mv -T "$building" "$target"
