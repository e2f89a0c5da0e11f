#!/usr/bin/env bash
# Puts the applications into .work whose migrations the tests replay. Without a name: into .work/applications those of
# which nothing is run but the SQL that they ship; seconds, once a change. `scripts/setup_applications.sh NAME`: one whose
# own program migrates, in `make test-all`, into an environment of its own. Runs after scripts/setup.sh.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# shellcheck source=scripts/leave_out.sh
. scripts/leave_out.sh

say() { printf 'setup-applications: %s\n' "$*"; }

install_sql() { "$UV" pip install --quiet --python .venv --target "$1" --no-deps --require-hashes -r "$2"; }

install_program() {
  say "installing $1, about a minute the first time ..."
  "$UV" venv --quiet --python .venv/bin/python "$1" && "$UV" pip install --quiet --python "$1" --require-hashes -r "$2"
}

main() {
  local name=applications wanted=requirements/applications.txt install=install_sql folder
  if [[ -n ${1-} ]]; then
    name=application-$1 wanted=requirements/applications/$1.txt install=install_program
  fi
  folder=.work/$name
  mkdir -p .work
  exec 9>".work/setup-$name.lock"
  flock 9
  has "$name"
  cmp -s "$wanted" "$folder/installed.txt" && return
  rm -rf "$folder"
  # shellcheck source=/dev/null
  . .work/env
  "$install" "$folder" "$wanted" || leave_out "$name" "what $wanted lists could not be installed: its migrations are not replayed."
  cp "$wanted" "$folder/installed.txt"
}

main "$@"
