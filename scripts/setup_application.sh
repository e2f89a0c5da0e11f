#!/usr/bin/env bash
# Puts one application, whose own programs migrate a database in `make test-all`, into .work/application-NAME, an
# environment of its own: scripts/setup_application.sh NAME. Its requirements are requirements/applications/NAME.txt.
# Runs after scripts/setup.sh.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# shellcheck source=scripts/leave_out.sh
. scripts/leave_out.sh

say() { printf 'setup-application: %s\n' "$*"; }

main() {
  local name=$1
  local folder=.work/application-$name wanted=requirements/applications/$name.txt
  mkdir -p .work
  exec 9>".work/setup-application-$name.lock"
  flock 9
  has "application-$name"
  cmp -s "$wanted" "$folder/installed.txt" && return
  rm -rf "$folder"
  # shellcheck source=/dev/null
  . .work/env
  say "installing $name, about a minute the first time ..."
  { "$UV" venv --quiet --python .venv/bin/python "$folder" &&
    "$UV" pip install --quiet --python "$folder" --require-hashes -r "$wanted"; } ||
    leave_out "application-$name" "the application $name could not be installed: its migrations are not replayed."
  cp "$wanted" "$folder/installed.txt"
}

main "$@"
