#!/bin/bash
# nginx in front of the app.
# in: address settings retries
set -euo pipefail

install_packages nginx curl
write_if_changed /etc/nginx/lab.conf 644 root:root "${settings:?}"
nginx -t -q -c /etc/nginx/lab.conf # before the running one is touched
write_if_changed /etc/nginx/nginx.conf 644 root:root "$settings"
start_again nginx.service

at_boot=/etc/sysctl.d/90-lab-edge.conf
if [ -n "${retries?}" ]; then
  write_if_changed "$at_boot" 644 root:root "# Written by lab.
net.ipv4.tcp_retries2 = $retries"
elif [ -e "$at_boot" ]; then
  rm "$at_boot"
  retries=15 # the kernel's own
fi
[ -z "$retries" ] || echo "$retries" >/proc/sys/net/ipv4/tcp_retries2
systemctl enable --quiet nginx
run_unit nginx /etc/nginx/nginx.conf

# ready: as a client; the app is not there yet
wait_for 60 "nginx" curl -fsS -m 10 "http://${address:?}/-/edge"
log "the edge is ready"
