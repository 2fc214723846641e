#!/bin/bash
# Redis with a password, a memory limit and a policy.
# in: address password settings
set -euo pipefail

install_packages redis-server
write_if_changed /etc/redis/redis.conf 640 redis:redis "${settings:?}
requirepass ${password:?}"
start_again redis-server.service
systemctl enable --quiet redis-server
run_unit redis-server /etc/redis/redis.conf

# ready: as a client, with the password
export REDISCLI_AUTH=$password
client() { timeout 10 redis-cli -h "${address:?}" --no-auth-warning "$@"; }
round_trip() {
  [ "$(client PING)" = PONG ] && [ "$(client SET lab:ready "$1" EX 60)" = OK ] && [ "$(client GET lab:ready)" = "$1" ]
}
wait_for 60 "Redis" round_trip "$RANDOM"
log "Redis is ready"
