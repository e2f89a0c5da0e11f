#!/bin/sh
# Starts PostgreSQL on the data in /data, which it makes the first time, with the databases of $DATABASES.
set -eu
export PGDATA=/data/postgresql
if [ ! -s "$PGDATA/ready" ]; then
  rm -rf "$PGDATA"
  printf '%s\n' "$PGPASSWORD" >/run/holdfast/password
  initdb --username postgres --pwfile /run/holdfast/password --auth scram-sha-256 --data-checksums >/dev/null
  rm /run/holdfast/password
  echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
  cat >>"$PGDATA/postgresql.conf" <<'CONF'
listen_addresses = '*'
unix_socket_directories = '/run/holdfast'
wal_level = logical
max_connections = 200
CONF
  pg_ctl start --silent --wait --options '-c listen_addresses=' >/dev/null
  for database in $DATABASES; do createdb --host /run/holdfast --username postgres "$database"; done
  pg_ctl stop --silent --wait --mode fast
  echo yes >"$PGDATA/ready"
fi
exec postgres
