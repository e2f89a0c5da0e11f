# Sourced by the scripts that set up the tests: leave_out says why something is left out and ends the script, without
# failing: the tests that need it are skipped with these words, and fail with CI=true (tests/support/runs/missing.py).
# Expects to be in the project's folder, and say.
# shellcheck shell=bash

leave_out() {
  local name=$1
  say "${*:2}"
  mkdir -p .work/missing
  printf '%s\n' "${*:2}" >".work/missing/$name"
  exit 0
}

# Forgets that something was left out.
has() { rm -f ".work/missing/$1"; }
