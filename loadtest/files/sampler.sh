#!/bin/bash
# The sampler as a systemd unit: it tells the load generator what this host uses.
# in: binary unit orders kubeconfig token services
set -euo pipefail

install_packages curl
install -d -m 700 /etc/lab
write_if_changed /etc/lab/sampler.token 600 root:root "${token:?}"
write_if_changed /etc/lab/sampler.header 600 root:root "Authorization: Bearer $token"
write_if_changed /etc/lab/sampler.services 600 root:root "${services:?}"
write_if_changed /etc/systemd/system/lab-sampler.service 644 root:root "${unit:?}"
cmp -s "${binary:?}" /usr/local/bin/lab-runner || install -m 755 "$binary" /usr/local/bin/lab-runner
systemctl enable --quiet lab-sampler
watched=()
if [ -n "${kubeconfig?}" ]; then watched=("$kubeconfig"); else rm -f /etc/lab/sampler.kubeconfig; fi
run_unit lab-sampler /etc/lab/sampler.token /etc/lab/sampler.services /etc/systemd/system/lab-sampler.service /usr/local/bin/lab-runner "${watched[@]}"

# A host that is no further load generator any more keeps nothing of one.
if [ "${orders:?}" = no ] && [ -e /etc/lab/generator.secret ]; then
  systemctl disable --quiet --now lab-generator.socket
  systemctl stop lab-generator.service
  rm -rf /etc/systemd/system/lab-generator.* /etc/lab/generator.*
  systemctl daemon-reload
fi

# ready: as the load generator, with the token, and every service answers it
wait_for 60 "the sampler" curl -fsS -m 5 -o /dev/null -H @/etc/lab/sampler.header http://127.0.0.1:9107/sample
wait_for 60 "a service that the sampler asks" curl -fsS -m 5 -o /dev/null -H @/etc/lab/sampler.header http://127.0.0.1:9107/services
