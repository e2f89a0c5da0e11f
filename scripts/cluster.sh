#!/usr/bin/env bash
# The cluster of docker-compose.yaml: up, down, logs. Makes its passwords once, in cluster/.env, for this user alone.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly SECRETS=cluster/.env

say() { printf 'cluster: %s\n' "$*"; }
fail() { printf 'cluster: %s\n' "$*" >&2; exit 1; }

need_engine() {
  command -v docker >/dev/null ||
    fail "there is no container engine: install Docker (Debian: 'sudo apt-get install docker.io docker-compose'). Without one, 'make demo' shows the same on one machine."
  docker info &>/dev/null ||
    fail "the container engine does not answer: start it ('sudo systemctl start docker'), and be in its group or root."
}

compose() {
  if docker compose version &>/dev/null; then
    docker compose --env-file "$SECRETS" "$@"
  elif command -v docker-compose >/dev/null; then
    docker-compose --env-file "$SECRETS" "$@"
  else
    fail "there is no Compose: install Docker's compose plugin (Debian: 'sudo apt-get install docker-compose')."
  fi
}

random() { head -c "$1" /dev/urandom | base64 -w0; }
word() { random 24 | tr '+/' 'xy' | tr -d '='; }

make_secrets() {
  [[ -f $SECRETS ]] && return
  local name
  umask 077
  {
    for name in AIRFLOW_DB_PASSWORD SHOP_PASSWORD TARGET_PASSWORD S3_ACCESS_KEY S3_SECRET_KEY SPARK_SECRET \
      AIRFLOW_SECRET_KEY AIRFLOW_ADMIN_PASSWORD AIRFLOW_VIEWER_PASSWORD; do
      printf '%s=%s\n' "$name" "$(word)"
    done
    printf 'ARCHIVE_KEY=%s\n' "$(random 32)"
    printf 'AIRFLOW_FERNET_KEY=%s\n' "$(random 32 | tr '+/' '-_')"
  } >"$SECRETS.new"
  mv "$SECRETS.new" "$SECRETS"
  say "made passwords in $SECRETS"
}

wait_for_ui() {
  local port=${AIRFLOW_PORT:-8080} tries
  for tries in {1..100}; do
    curl --silent --fail --max-time 3 --output /dev/null "http://127.0.0.1:$port/api/v2/monitor/health" && return
    sleep 2
  done
  fail "Airflow did not answer at http://127.0.0.1:$port: 'make cluster-logs' says why."
}

up() {
  make_secrets
  say "building images where they are not there, about ten minutes the first time ..."
  compose build s3 begin || fail "the images could not be built (see above). BASE names another base image: a Debian 12."
  compose up --detach --remove-orphans || fail "not all of it started: 'make cluster-logs' says why."
  wait_for_ui
  say "Airflow: http://127.0.0.1:${AIRFLOW_PORT:-8080}, user admin, password AIRFLOW_ADMIN_PASSWORD of $SECRETS"
  say "the Holdfast page: http://127.0.0.1:${AIRFLOW_PORT:-8080}/plugin/holdfast"
}

need_engine
case ${1-} in
  up) up ;;
  secrets) make_secrets ;;
  down) [[ -f $SECRETS ]] && compose down --remove-orphans ${VOLUMES:+--volumes} ;;
  logs) compose logs --tail 200 ${FOLLOW:+--follow} ;;
  compose) compose "${@:2}" ;;
  *) fail "say up, down, logs, secrets or compose." ;;
esac
