#!/usr/bin/env bash
# Puts the applications into .work/applications whose migrations the tests replay; seconds, once a change.
# Nothing of them is run but the SQL that they ship. Runs after scripts/setup.sh.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# shellcheck source=scripts/leave_out.sh
. scripts/leave_out.sh

say() { printf 'setup-applications: %s\n' "$*"; }

main() {
  local folder=.work/applications
  mkdir -p .work
  exec 9>.work/setup-applications.lock
  flock 9
  has applications
  cmp -s requirements/applications.txt "$folder/installed.txt" && return
  rm -rf "$folder"
  # shellcheck source=/dev/null
  . .work/env
  "$UV" pip install --quiet --python .venv --target "$folder" --no-deps --require-hashes -r requirements/applications.txt ||
    leave_out applications "the applications whose migrations are replayed could not be installed."
  cp requirements/applications.txt "$folder/installed.txt"
}

main
