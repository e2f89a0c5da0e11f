#!/usr/bin/env bash
# Builds .work/bin/tla, the model checker of specs/; about three minutes of one core the first time.
# Takes the Rust on PATH, or else the one rustup has put into ~/.cargo.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly VERSION=0.24.11

say() { printf 'setup-specs: %s\n' "$*"; }
fail() { printf 'setup-specs: %s\n' "$*" >&2; exit 1; }

main() {
  local started=$SECONDS
  mkdir -p .work/bin
  exec 9>.work/setup-specs.lock
  flock 9
  [[ -x .work/bin/tla && -f .work/bin/tla.$VERSION ]] && return
  PATH="$PATH:$HOME/.cargo/bin"
  command -v cargo >/dev/null ||
    fail "Rust is missing: install cargo and rustc (rustup does), then run make again."
  say "building the model checker tla-checker $VERSION, about three minutes the first time ..."
  CARGO_TARGET_DIR=.work/tla-build cargo install --quiet --locked --force --root .work "tla-checker@$VERSION" \
    &>.work/tla.log || fail "tla-checker could not be built: $(tail -1 .work/tla.log)"
  rm -rf .work/tla-build .work/bin/tla.[0-9]*
  touch ".work/bin/tla.$VERSION"
  say "ready in $((SECONDS - started)) s"
}

main
