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

# Adds what is missing: a file of an earlier release lacks names, and a password that is in use is never replaced.
make_secrets() {
  local name
  umask 077
  {
    [[ ! -f $SECRETS ]] || cat "$SECRETS"
    for name in AIRFLOW_DB_PASSWORD SHOP_PASSWORD TARGET_PASSWORD S3_ACCESS_KEY S3_SECRET_KEY SPARK_SECRET \
      AIRFLOW_SECRET_KEY AIRFLOW_ADMIN_PASSWORD AIRFLOW_VIEWER_PASSWORD GRAFANA_ADMIN_PASSWORD BROKER_PASSWORD; do
      has_secret "$name" || printf '%s=%s\n' "$name" "$(word)"
    done
    has_secret ARCHIVE_KEY || printf 'ARCHIVE_KEY=%s\n' "$(random 32)"
    has_secret AIRFLOW_FERNET_KEY || printf 'AIRFLOW_FERNET_KEY=%s\n' "$(random 32 | tr '+/' '-_')"
  } >"$SECRETS.new"
  if cmp --silent "$SECRETS.new" "$SECRETS"; then
    rm "$SECRETS.new"
    return
  fi
  mv "$SECRETS.new" "$SECRETS"
  say "made passwords in $SECRETS"
}

has_secret() { [[ -f $SECRETS ]] && grep --quiet "^$1=" "$SECRETS"; }

wait_for_ui() {
  local port=${AIRFLOW_PORT:-8080} tries
  for tries in {1..100}; do
    curl --silent --fail --max-time 3 --output /dev/null "http://127.0.0.1:$port/api/v2/monitor/health" && return
    sleep 2
  done
  fail "Airflow did not answer at http://127.0.0.1:$port: 'make cluster-logs' says why."
}

has_profile() { [[ ,${COMPOSE_PROFILES-}, == *,$1,* ]]; }

up() {
  local images=(s3 begin)
  if has_profile celery; then
    images+=(broker celery-worker)
    export AIRFLOW_EXECUTOR=CeleryExecutor AIRFLOW_IMAGE=holdfast-celery:local
  fi
  make_secrets
  has_profile celery || compose --profile celery rm --stop --force celery-worker broker &>/dev/null || true
  say "building images where they are not there, about ten minutes the first time ..."
  compose build "${images[@]}" || fail "the images could not be built (see above). BASE names another base image: a Debian 12, by its digest."
  compose up --detach --remove-orphans || fail "not all of it started: 'make cluster-logs' says why."
  wait_for_ui
  say "Airflow: http://127.0.0.1:${AIRFLOW_PORT:-8080}, user admin, password AIRFLOW_ADMIN_PASSWORD of $SECRETS"
  say "the Holdfast page: http://127.0.0.1:${AIRFLOW_PORT:-8080}/plugin/holdfast"
  if has_profile monitoring; then
    say "Prometheus: http://127.0.0.1:${PROMETHEUS_PORT:-9090}; Grafana: http://127.0.0.1:${GRAFANA_PORT:-3000}, user admin, password GRAFANA_ADMIN_PASSWORD of $SECRETS"
  fi
}

need_engine
case ${1-} in
  up) up ;;
  secrets) make_secrets ;;
  down) [[ -f $SECRETS ]] && compose --profile monitoring --profile celery down --remove-orphans ${VOLUMES:+--volumes} ;;
  logs) compose --profile monitoring --profile celery logs --tail 200 ${FOLLOW:+--follow} ;;
  compose) compose "${@:2}" ;;
  *) fail "say up, down, logs, secrets or compose." ;;
esac
