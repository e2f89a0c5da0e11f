#!/usr/bin/env bash
# Builds .venv from requirements/dev.txt and writes .work/env: the Java and the uv that were chosen.
# Expects Python 3.11 or later and Java 17 or 21; a run with nothing changed does nothing.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly VENV_INPUTS=(requirements/dev.txt scripts/setup.sh)

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# A stamp is the hash of what a step was made from.
fingerprint() { { printf '%s\n' "$PWD" "$(.venv/bin/python -VV 2>&1)"; cat "$@"; } | sha256sum; }
is_current() { [[ -f .work/$1.stamp && $(<".work/$1.stamp") == "$(fingerprint "${@:2}")" ]]; }
stamp() { fingerprint "${@:2}" >".work/$1.stamp"; }

find_python() {
  local name path
  # A name may be a shim that fails, and python3 that of a venv: ask each for the interpreter behind it.
  for name in python3.14 python3.13 python3.12 python3.11 python3; do
    path=$("$name" -c 'import sys
sys.version_info[:2] >= (3, 11) or sys.exit(1)
print(getattr(sys, "_base_executable", sys.executable))' 2>/dev/null) && echo "$path" && return
  done
  fail "Python 3.11 or later is missing: type 'sudo apt-get install python3' (Debian 12, Ubuntu 24.04 or later)."
}

find_uv() {
  local path
  if path=$(command -v uv) && printf '0.8\n%s\n' "$(uv --version | cut -d' ' -f2)" | sort -CV; then
    echo "$path"
    return
  fi
  cmp -s requirements/uv.txt .work/uv/installed.txt || install_uv "$1"
  echo "$PWD/.work/uv/bin/uv"
}

install_uv() {
  local pip=("$1" -m pip)
  if ! "${pip[@]}" --version &>/dev/null; then
    "$1" -m venv .work/pip &>/dev/null ||
      fail "pip is missing: type 'sudo apt-get install python3-pip', or install uv."
    pip=(.work/pip/bin/python -m pip)
  fi
  rm -rf .work/uv
  PIP_ROOT_USER_ACTION=ignore "${pip[@]}" install --quiet --target .work/uv --no-deps --require-hashes -r requirements/uv.txt >&2
  cp requirements/uv.txt .work/uv/installed.txt
}

# Spark 4 runs on Java 17 and 21.
is_supported_java() {
  [[ -n $1 && -x $1/bin/java && $("$1/bin/java" -version 2>&1) =~ version\ \"(17|21)[.\"] ]]
}

find_java() {
  local home on_path
  # PATH may hold a shim: java itself knows its home.
  on_path=$(java -XshowSettings:properties -version 2>&1 | sed -n 's/^ *java\.home = //p') || true
  for home in "${JAVA_HOME:-}" "$on_path" /usr/lib/jvm/*; do
    is_supported_java "$home" && echo "$home" && return
  done
  return 1
}

install_java() {
  local package
  if [[ $EUID == 0 ]] && command -v apt-get >/dev/null; then
    say "installing a Java runtime with apt-get, about a minute ..."
    apt-get update -qq || true
    for package in openjdk-17-jre-headless openjdk-21-jre-headless; do
      apt-get install -qq -y --no-install-recommends "$package" &>.work/apt.log && return
    done
  fi
  fail "Java 17 or 21 is missing: type 'sudo apt-get install openjdk-17-jre-headless', or set JAVA_HOME."
}

write_env() {
  local java_home uv=$1
  java_home=$(find_java) || { install_java && java_home=$(find_java); } || fail "apt-get installed no usable Java."
  printf '%s\n' "JAVA_HOME=$java_home" "UV=$uv" >.work/env
}

env_is_current() {
  [[ -f .work/env ]] || return 1
  local wanted=${JAVA_HOME:-} JAVA_HOME UV
  # shellcheck source=/dev/null
  . .work/env
  [[ -x $JAVA_HOME/bin/java && -x $UV && ${wanted:-$JAVA_HOME} == "$JAVA_HOME" ]]
}

build_venv() {
  local python=$1 uv=$2
  say "installing $(grep -c '^[a-z].*==' requirements/dev.txt) packages into .venv, one to three minutes the first time ..."
  rm -f .work/*.stamp
  # Always from nothing: pyspark and pyspark-client own the same files, so an upgrade in place would lose some.
  "$uv" venv --quiet --clear --no-project --python "$python" .venv
  "$uv" pip install --quiet --python .venv --compile-bytecode --require-hashes \
    --build-constraints requirements/dev.txt -r requirements/dev.txt
  stamp packages "${VENV_INPUTS[@]}"
}

build() {
  local python uv started=$SECONDS
  if env_is_current && is_current packages "${VENV_INPUTS[@]}" && is_current project pyproject.toml; then
    return
  fi
  python=$(find_python)
  uv=$(find_uv "$python")
  write_env "$uv"
  is_current packages "${VENV_INPUTS[@]}" || build_venv "$python" "$uv"
  "$uv" pip install --quiet --python .venv --no-deps --no-build-isolation --editable .
  rm -f .venv/share/holdfast/spark-*.jsa
  stamp project pyproject.toml
  say "ready in $((SECONDS - started)) s"
}

prepare_spark() {
  compgen -G '.venv/share/holdfast/spark-*.jsa' >/dev/null && return
  say "preparing Spark's classes, about ten seconds ..."
  local JAVA_HOME UV
  # shellcheck source=/dev/null
  . .work/env
  JAVA_HOME=$JAVA_HOME .venv/bin/python -m holdfast.spark_classes &>.work/spark-classes.log ||
    say "$(tail -1 .work/spark-classes.log)"
}

main() {
  mkdir -p .work
  exec 9>.work/setup.lock
  flock 9
  build
  prepare_spark
}

main
