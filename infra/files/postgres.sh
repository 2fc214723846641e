#!/bin/bash
# Postgres with scram, one database and its role, for the lab's subnet only.
# in: address subnet database user password settings
set -euo pipefail

install_packages postgresql
version=$(find /usr/lib/postgresql -mindepth 1 -maxdepth 1 -printf '%f\n' | sort -V | tail -n 1)
dir=/etc/postgresql/$version/main
if [ ! -e "$dir/postgresql.conf" ] || [ ! -e "/var/lib/postgresql/$version/main/PG_VERSION" ]; then
  log "creating the database cluster"
  pg_dropcluster "$version" main 2>/dev/null || true # what a cut run left
  pg_createcluster "$version" main >/dev/null
fi
grep -q "^include_dir *= *'conf.d'" "$dir/postgresql.conf" || echo "include_dir = 'conf.d'" >>"$dir/postgresql.conf"
write_if_changed "$dir/conf.d/lab.conf" 644 postgres:postgres "${settings:?}"
write_if_changed "$dir/pg_hba.conf" 640 postgres:postgres "local all postgres peer
local all lab_monitor peer map=lab
host ${database:?} ${user:?} ${subnet:?} scram-sha-256"
# The sampler runs as root on this machine, and reads statistics only.
write_if_changed "$dir/pg_ident.conf" 640 postgres:postgres 'lab root lab_monitor'
start_again postgresql@.service
systemctl enable --quiet postgresql
run_unit "postgresql@$version-main" "$dir/postgresql.conf" "$dir/conf.d/lab.conf" "$dir/pg_hba.conf" "$dir/pg_ident.conf"

admin() { runuser -u postgres -- psql -v ON_ERROR_STOP=1 -qtA "$@"; }
wait_for 120 "the server" admin -c 'SELECT 1'
# Neither the server's log nor its statistics may keep the password.
admin -f - <<SQL
SET log_min_error_statement = 'panic';
SET log_min_duration_statement = -1;
SET log_statement = 'none';
SET pg_stat_statements.track = 'none';
SELECT 'CREATE ROLE "$user" LOGIN' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '$user') \gexec
SELECT 'CREATE ROLE lab_monitor LOGIN CONNECTION LIMIT 3' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'lab_monitor') \gexec
GRANT pg_monitor TO lab_monitor;
ALTER ROLE "$user" PASSWORD '${password:?}';
SELECT 'CREATE DATABASE "$database" OWNER "$user"' WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = '$database') \gexec
SQL
admin -d "$database" -c 'SET client_min_messages = warning; CREATE EXTENSION IF NOT EXISTS pg_stat_statements'

# ready: as a client, over TCP, with the password
export PGPASSWORD=$password PGCONNECT_TIMEOUT=10
client() { psql -h "${address:?}" -U "$user" -d "$database" -v ON_ERROR_STOP=1 -qtA -c 'SELECT 1' -c 'SELECT count(*) FROM pg_stat_statements(false)'; }
wait_for 60 "the database $database" client
log "Postgres $version is ready"
