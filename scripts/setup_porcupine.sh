#!/usr/bin/env bash
# Builds .work/bin/check-history, which decides whether a history is linearizable; seconds, once a change.
# Runs after scripts/setup.sh.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly SOURCES=tests/support/porcupine GO_NEEDED=1.21

# shellcheck source=scripts/find_go.sh
. scripts/find_go.sh
# shellcheck source=scripts/leave_out.sh
. scripts/leave_out.sh

say() { printf 'setup-porcupine: %s\n' "$*"; }

main() {
  local go sources started=$SECONDS stamp=.work/bin/check-history.stamp
  mkdir -p .work/bin
  exec 9>.work/setup-porcupine.lock
  flock 9
  has porcupine
  sources=$(sha256sum "$SOURCES"/go.* "$SOURCES"/*.go)
  [[ -x .work/bin/check-history && -f $stamp && $(<"$stamp") == "$sources" ]] && return
  go=$(find_go "$GO_NEEDED") ||
    leave_out porcupine "the linearizability checker is left out: Go $GO_NEEDED could not be had, neither on PATH nor from its wheel."
  rm -f "$stamp"
  env -u GOROOT GOFLAGS=-mod=readonly GOWORK=off GOTOOLCHAIN=local CGO_ENABLED=0 \
    "$go" build -C "$SOURCES" -buildvcs=false -o "$PWD/.work/bin/check-history" . &>.work/porcupine.log ||
    leave_out porcupine "the linearizability checker is left out, since it could not be built: $(tail -1 .work/porcupine.log)"
  printf '%s\n' "$sources" >"$stamp"
  say "built the linearizability checker in $((SECONDS - started)) s"
}

main
