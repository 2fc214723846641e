#!/bin/bash
# Builds the tree that every machine starts from.
# usage: base.sh TARGET SUITE PACKAGES < apt-sources
set -euo pipefail

target=$1 suite=$2 packages=$3

# Services come up when a machine's own setup asks for them, never by themselves.
mmdebstrap --mode=root --variant=minbase --format=directory --include="$packages" \
  --aptopt='APT::Install-Recommends "false"' \
  --aptopt='Acquire::Retries "3"' \
  --dpkgopt='path-exclude=/usr/share/doc/*' \
  --dpkgopt='path-exclude=/usr/share/man/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' \
  --essential-hook='mkdir -p "$1/etc/postgresql-common"; echo "create_main_cluster = false" >"$1/etc/postgresql-common/createcluster.conf"' \
  "$suite" "$target" -

chroot "$target" systemctl disable --quiet nginx redis-server postgresql ssh.socket 2>/dev/null || true
chroot "$target" systemctl enable --quiet systemd-networkd ssh
chroot "$target" systemctl mask --quiet apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer \
  e2scrub_all.timer e2scrub_reap.service fstrim.timer systemd-networkd-wait-online.service getty@tty1.service \
  console-getty.service systemd-logind.service
rm -f "$target"/etc/ssh/ssh_host_* "$target/etc/resolv.conf" "$target/var/lib/dbus/machine-id"
: >"$target/etc/machine-id"
install -d -m 700 "$target/root/.ssh"
cat >"$target/etc/ssh/sshd_config.d/lab.conf" <<'CONF'
HostKey /etc/ssh/ssh_host_ed25519_key
PasswordAuthentication no
UseDNS no
MaxStartups 100
MaxSessions 100
CONF

# ready: what a machine can't do without
test -x "$target/usr/sbin/sshd"
test -x "$target/usr/lib/systemd/systemd"
