#!/usr/bin/env bash
# Builds .work/bin/tla, the model checker of specs/; about two minutes of one core the first time.
# Takes the Rust on PATH, or else the one rustup has put into ~/.cargo.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly VERSION=0.24.11

# shellcheck source=scripts/leave_out.sh
. scripts/leave_out.sh

say() { printf 'setup-specs: %s\n' "$*"; }

main() {
  local started=$SECONDS
  mkdir -p .work/bin
  exec 9>.work/setup-specs.lock
  flock 9
  has specs
  [[ -x .work/bin/tla && -f .work/bin/tla.$VERSION ]] && return
  PATH="$PATH:$HOME/.cargo/bin"
  command -v cargo >/dev/null ||
    leave_out specs "the models of specs/ are left out, since Rust is missing: install cargo and rustc (rustup does), then run make again."
  say "building the model checker tla-checker $VERSION, about two minutes the first time ..."
  CARGO_TARGET_DIR=.work/tla-build cargo install --quiet --locked --force --bin tla --root .work "tla-checker@$VERSION" \
    &>.work/tla.log || leave_out specs "the models of specs/ are left out, since tla-checker could not be built: $(tail -1 .work/tla.log)"
  rm -rf .work/tla-build .work/bin/tla.[0-9]*
  touch ".work/bin/tla.$VERSION"
  say "ready in $((SECONDS - started)) s"
}

main
