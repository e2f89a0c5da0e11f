#!/usr/bin/env bash
# Builds .work/bin/versitygw, the S3 server of the tests and the bench; about two minutes the first time.
# Runs after scripts/setup.sh.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly VERSION=v1.8.0 GO_NEEDED=1.25.0

# shellcheck source=scripts/find_go.sh
. scripts/find_go.sh
# shellcheck source=scripts/leave_out.sh
. scripts/leave_out.sh

say() { printf 'setup-tests: %s\n' "$*"; }

main() {
  local go started=$SECONDS
  mkdir -p .work/bin
  exec 9>.work/setup-tests.lock
  flock 9
  has versitygw
  [[ -x .work/bin/versitygw && -f .work/bin/versitygw.$VERSION ]] && return
  go=$(find_go "$GO_NEEDED") || leave_out versitygw "versitygw (the S3 server) is left out: Go $GO_NEEDED could not be had, neither on PATH nor from its wheel."
  say "building the S3 server versitygw $VERSION, about two minutes the first time ..."
  env -u GOROOT GOBIN="$PWD/.work/bin" GOFLAGS=-mod=mod GOTOOLCHAIN=local CGO_ENABLED=0 \
    "$go" install "github.com/versity/versitygw/cmd/versitygw@$VERSION" &>.work/versitygw.log ||
    leave_out versitygw "versitygw (the S3 server) is left out, since it could not be built: $(tail -1 .work/versitygw.log)"
  rm -f .work/bin/versitygw.v*
  touch ".work/bin/versitygw.$VERSION"
  say "ready in $((SECONDS - started)) s"
}

main
