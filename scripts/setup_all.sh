#!/usr/bin/env bash
# Sets up everything the tests need: scripts/setup.sh, and beside each other, as many at a time as there are processors,
# what builds the servers and the checkers. The longest begins first. One that fails says why, and fails the whole.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'setup-all: %s\n' "$*"; }
fail() { printf 'setup-all: %s\n' "$*" >&2; exit 1; }

declare -A running=()

# Ends what was begun, when a signal says so: each script is a process group of its own.
end() {
  local pid
  for pid in "${running[@]}"; do kill -- "-$pid" 2>/dev/null || true; done
  exit "$1"
}

# Starts a script when there is a place. sed passes on whole lines only, so that those of several do not mix.
start() {
  read -rn 1 -u 8
  (
    trap 'printf . >&8' EXIT
    "scripts/$1" 2>&1 | sed -u ''
  ) &
  running[$1]=$!
}

main() {
  local places name failed=() started=$SECONDS pipe
  set -m
  trap 'end 130' INT
  trap 'end 143' TERM HUP
  places=$(nproc)
  mkdir -p .work
  pipe=$(mktemp -u .work/places.XXXXXX)
  mkfifo "$pipe"
  exec 8<>"$pipe"
  rm "$pipe"
  printf "%${places}s" >&8

  start setup_specs.sh
  start setup.sh
  # The others need the environment.
  wait "${running[setup.sh]}" || { wait; fail "the environment could not be set up, see above."; }
  for name in setup_tests.sh setup_emulators.sh setup_browser.sh setup_postgresql.sh setup_porcupine.sh setup_applications.sh; do start "$name"; done
  for name in "${!running[@]}"; do wait "${running[$name]}" || failed+=("scripts/$name"); done
  [[ ${#failed[@]} -eq 0 ]] || fail "failed: ${failed[*]}; their sentences are above."
  [[ $((SECONDS - started)) -lt 10 ]] || say "ready in $((SECONDS - started)) s"
}

main
