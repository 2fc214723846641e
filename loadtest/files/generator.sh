#!/bin/bash
# A further load generator: a socket alone listens for orders; the runner is there
# only while it is needed.
# in: socket unit listen target secret
set -euo pipefail

install -d -m 700 /etc/lab
write_if_changed /etc/lab/generator.secret 600 root:root "${secret:?}"
write_if_changed /etc/lab/generator.header 600 root:root "Authorization: Bearer $secret"
write_if_changed /etc/lab/generator.env 644 root:root "LAB_TARGET=${target:?}"
write_if_changed /etc/systemd/system/lab-generator.service 644 root:root "${unit:?}"
write_if_changed /etc/systemd/system/lab-generator.socket 644 root:root "${socket:?}"
write_if_changed /etc/systemd/system/lab-generator.socket.d/listen.conf 644 root:root "[Socket]
ListenStream=${listen:?}"
systemctl stop lab-generator.service 2>/dev/null || true # one of an earlier runner
systemctl enable --quiet lab-generator.socket
run_unit lab-generator.socket /etc/systemd/system/lab-generator.socket /etc/systemd/system/lab-generator.socket.d/listen.conf \
  /etc/systemd/system/lab-generator.service /etc/lab/generator.env

# ready: as the leading generator, with the secret
wait_for 30 "the load generator" curl -fsS -m 5 -o /dev/null -H @/etc/lab/generator.header "http://$listen/ready"
