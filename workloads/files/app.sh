#!/bin/bash
# The demo workload as systemd units: web, worker and beat.
# in: binary unit environment database_url redis_url edge_url
set -euo pipefail

install_packages curl ca-certificates
install -d -m 700 /etc/lab
write_if_changed /etc/lab/app.env 600 root:root "${environment:?}
DATABASE_URL=${database_url:?}
REDIS_URL=${redis_url:?}"
write_if_changed /etc/systemd/system/lab-app@.service 644 root:root "${unit:?}"
cmp -s "${binary:?}" /usr/local/bin/lab-app || install -m 755 "$binary" /usr/local/bin/lab-app

log "migrating the database"
(
  set -a
  # shellcheck disable=SC1091 # written above
  . /etc/lab/app.env
  exec /usr/local/bin/lab-app migrate
)
for part in web worker beat; do
  systemctl enable --quiet "lab-app@$part"
  run_unit "lab-app@$part" /etc/lab/app.env /etc/systemd/system/lab-app@.service /usr/local/bin/lab-app
done

# ready: as a client, first here, then by the way that requests take
wait_for 120 "the app" curl -fsS -m 10 http://127.0.0.1:8080/readyz
wait_for 60 "the app behind the edge" curl -fsS -m 10 "${edge_url:?}/readyz"
log "ready at $edge_url"
