#!/usr/bin/env bash
# Runs a tier of the tests: scripts/test.sh fast|test|all|specs. Style, import floors and types are checked beside `test`
# and `all`; what fails of them is told at the end. Runs after scripts/setup.sh. From the environment:
# WORKERS: how many processes run tests. RECORD=1: write tests/durations.json. Of `all`: BUDGET=2h, and PART=sparkjobs.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly MEMORY_FILES=${MEMORY_FILES-/dev/shm} MEMORY_INFO=${MEMORY_INFO-/proc/meminfo}
readonly FAST="not service and not e2e and not slow and not exhaustive"

declare -A checks=()

say() { printf 'test: %s\n' "$*"; }
fail() { printf 'test: %s\n' "$*" >&2; exit 1; }

available_mb() { awk '/^MemAvailable:/ { print int($2 / 1024) }' "$MEMORY_INFO" 2>/dev/null || true; }
free_mb() { df --output=avail --block-size=1M "$1" 2>/dev/null | tail -1 || true; }

# Tests wait for threads and processes of their own, so that there may be more of those without servers than processors.
# Those with servers have a PostgreSQL and a Spark each: more than a few only get in each other's way. On two processors
# a third one took an eighth of the time that these waited.
count_workers() {
  local cores workers memory
  cores=$(nproc)
  case $1 in
    fast) workers=$((cores * 3 / 2)) ;;
    *) workers=$((cores < 4 ? cores + 1 : 4)) ;;
  esac
  memory=$(available_mb)
  [[ -z $memory || $((memory / $2)) -ge $workers ]] || workers=$((memory / $2))
  echo "$((workers > 0 ? workers : 1))"
}

# Whether programs run in a folder, and files have attributes there: memory is mounted without, in some containers.
holds_all() {
  local probe
  probe=$(mktemp -d "$1/holdfast-probe.XXXXXX" 2>/dev/null) || return 1
  printf '#!/bin/sh\n' >"$probe/program" && chmod +x "$probe/program" && "$probe/program" &&
    .venv/bin/python -c 'import os, sys; os.setxattr(sys.argv[1], "user.probe", b"1")' "$probe/program"
  local held=$?
  rm -rf "$probe"
  return "$held"
} 2>/dev/null

# Half of the time of many tests would go to fsync. Files in memory need room there, and memory besides for processes.
choose_folder() {
  local workers=$1 memory_mb=$2 files_mb=$3 available free
  [[ -z ${TMPDIR-} && -n $MEMORY_FILES ]] || return 0
  available=$(available_mb) free=$(free_mb "$MEMORY_FILES")
  if [[ ${free:-0} -gt $((workers * files_mb)) && ${available:-0} -gt $((workers * (files_mb + memory_mb))) ]] &&
    holds_all "$MEMORY_FILES"; then
    export TMPDIR=$MEMORY_FILES
  else
    say "the tests have their files on the disk, which takes longer: in memory, they need $((workers * files_mb)) MB of $MEMORY_FILES."
  fi
}

# Starts a check; it tells at once that it failed, and report_checks why.
start_check() {
  local name=$1
  # A process group of its own can be ended as one.
  set -m
  ("${@:2}" &>".work/check-$name.log" || { printf '\ntest: %s failed, as is told at the end.\n' "$name"; exit 1; }) &
  set +m
  checks[$name]=$!
}

check_style() { .venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/python scripts/check_names.py; }

start_checks() {
  start_check style check_style
  start_check floors .venv/bin/lint-imports
  start_check types .venv/bin/mypy
}

end_checks() {
  local pid
  for pid in "${checks[@]}"; do kill -- "-$pid" 2>/dev/null || true; done
}

report_checks() {
  local name failed=()
  for name in style floors types; do
    [[ -n ${checks[$name]-} ]] || continue
    wait "${checks[$name]}" && continue
    failed+=("$name")
    printf '\n--- %s ---\n' "$name"
    cat ".work/check-$name.log"
  done
  [[ ${#failed[@]} -eq 0 ]] || fail "what must hold beside the tests failed: ${failed[*]} (see above)."
  [[ ${#checks[@]} -eq 0 ]] || say "style, import floors and types are right."
}

# Prints what of the tests a part is: paths, or words in their names.
find_part() {
  local word
  for word in $1; do
    if [[ -e tests/$word ]]; then
      echo "tests/$word"
    elif [[ -e ${word%%::*} ]]; then
      echo "$word"
    else
      printf -- '-k\n%s\n' "$1"
      return
    fi
  done
}

# Runs pytest, and passes signals on: Ctrl-C comes to it by itself. Returns its exit code; `interrupted` is set then.
run_tests() {
  local status tests=
  trap 'interrupted=1' INT
  trap 'interrupted=1; [[ -z $tests ]] || kill -TERM "$tests" 2>/dev/null || true' TERM HUP
  pytest "$@" &
  tests=$!
  [[ -z ${interrupted-} ]] || kill -TERM "$tests" 2>/dev/null || true
  while true; do
    status=0
    wait "$tests" || status=$?
    kill -0 "$tests" 2>/dev/null || return "$status"
  done
}

run() {
  local tier=$1 memory_mb=2000 files_mb=2500 options=() part=() workers status=0
  case $tier in
    fast) memory_mb=700 files_mb=700 options=(-m "$FAST") ;;
    test) options=(-m "not exhaustive" --durations=15 --record-durations=.work/test-durations.json) ;;
    all) export HOLDFAST_TEST_TIER=all; options=(-m "" -o faulthandler_timeout=0 --durations=15 "--budget=${BUDGET:-none}") ;;
    specs) options=(-m "" tests/specs) ;;
    *) fail "there is no tier $tier: say fast, test, all or specs." ;;
  esac
  [[ -z ${RECORD-} ]] || options+=(--record-durations=tests/durations.json)
  if [[ $tier == all && -n ${PART-} ]]; then
    mapfile -t part < <(find_part "$PART")
  elif [[ $tier == test || $tier == all ]]; then
    start_checks
  fi
  workers=${WORKERS:-$(count_workers "$tier" "$memory_mb")}
  choose_folder "$workers" "$memory_mb" "$files_mb"
  run_tests "--numprocesses=$workers" --dist=loadfile --max-worker-restart=0 "${options[@]}" "${part[@]}" || status=$?
  [[ -n ${interrupted-} ]] || report_checks
  return "$status"
}

main() {
  mkdir -p .work
  trap end_checks EXIT
  set -a
  # shellcheck source=/dev/null
  . .work/env
  set +a
  PATH="$PWD/.venv/bin:$PATH"
  # Without bytecode, each process would compile all tests anew: a quarter of a minute.
  unset PYTHONDONTWRITEBYTECODE
  run "${1-}"
}

main "$@"
