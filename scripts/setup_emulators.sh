#!/usr/bin/env bash
# Puts the emulators of the tests into .work: azurite (Azure Blob Storage) and fake-gcs-server (Google Cloud Storage);
# about a minute and a half the first time. Takes Node.js and Go from PATH, or else from their wheels.
# Runs after scripts/setup.sh. After a change of requirements/azurite/package.json, renew its lock there:
# npm install --package-lock-only --omit-lockfile-registry-resolved
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly GCS_VERSION=v1.56.1 GO_NEEDED=1.26.0

# shellcheck source=scripts/find_go.sh
. scripts/find_go.sh
# shellcheck source=scripts/find_node.sh
. scripts/find_node.sh
# shellcheck source=scripts/leave_out.sh
. scripts/leave_out.sh

say() { printf 'setup-emulators: %s\n' "$*"; }

install_azurite() {
  local node npm
  say "installing the Azure emulator azurite, about half a minute the first time ..."
  find_node 18 ||
    leave_out azurite "azurite (the Azure emulator) is left out: Node.js could not be had, neither on PATH nor from its wheel."
  rm -rf .work/azurite
  mkdir -p .work/azurite
  cp requirements/azurite/package.json requirements/azurite/package-lock.json .work/azurite
  "${npm[@]}" ci --prefix .work/azurite --omit=dev --omit=optional --ignore-scripts --no-audit --no-fund \
    &>.work/azurite.log || leave_out azurite "azurite (the Azure emulator) is left out, since it could not be installed: $(grep 'npm error' .work/azurite.log | head -2)"
  ln -s "$node" .work/azurite/node
  cp requirements/azurite/package-lock.json .work/azurite/installed.json
}

build_fake_gcs() {
  local go
  go=$(find_go "$GO_NEEDED") || leave_out fake-gcs "fake-gcs-server (the Google emulator) is left out: Go $GO_NEEDED could not be had, neither on PATH nor from its wheel."
  say "building the Google Cloud Storage emulator fake-gcs-server $GCS_VERSION, about a minute the first time ..."
  env -u GOROOT GOBIN="$PWD/.work/bin" GOFLAGS=-mod=mod GOTOOLCHAIN=local CGO_ENABLED=0 \
    "$go" install "github.com/fsouza/fake-gcs-server@$GCS_VERSION" &>.work/fake-gcs-server.log ||
    leave_out fake-gcs "fake-gcs-server (the Google emulator) is left out, since it could not be built: $(tail -1 .work/fake-gcs-server.log)"
  rm -f .work/bin/fake-gcs-server.v*
  touch ".work/bin/fake-gcs-server.$GCS_VERSION"
}

main() {
  mkdir -p .work/bin
  exec 9>.work/setup-emulators.lock
  flock 9
  has azurite
  has fake-gcs
  [[ -x .work/azurite/node ]] && cmp -s requirements/azurite/package-lock.json .work/azurite/installed.json ||
    (install_azurite)
  [[ -x .work/bin/fake-gcs-server && -f .work/bin/fake-gcs-server.$GCS_VERSION ]] || (build_fake_gcs)
}

main
