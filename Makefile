# `make help` lists the targets. Everything runs from .venv, which `make setup` builds.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
.NOTPARALLEL:

BIN := .venv/bin
# Runs a program of the environment: with the Java that setup chose, and with .venv/bin on PATH for spark-submit.
IN_ENV := set -a; . .work/env; PATH="$(CURDIR)/$(BIN):$$PATH"; exec

# Tests that start no server have their files in memory, where there is room: half of their time would go to fsync. They
# wait for threads and processes of their own a fifth of it, so that there may be more of them than processors.
IN_MEMORY := [[ -z $${TMPDIR-} && -w /dev/shm && $$(df --output=avail /dev/shm | tail -1) -gt 2000000 ]] && export TMPDIR=/dev/shm;

# Each process has servers and a Spark of its own, so that more than a few only get in each other's way. The tests of one
# file stay together: they share what is dear to make.
PARALLEL := --numprocesses=auto --maxprocesses=4 --dist=loadfile --max-worker-restart=0

.PHONY: help setup setup-tests demo demo-stop test test-fast test-all lint types format bench bench-locks lock wheel clean

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Build .venv from the hashed requirements and find a Java runtime.
	@scripts/setup.sh

setup-tests: setup # Build the servers of the tests and the bench, the model checker of specs/ and that of histories.
	@scripts/setup_tests.sh
	@scripts/setup_emulators.sh
	@scripts/setup_postgresql.sh
	@scripts/setup_specs.sh
	@scripts/setup_porcupine.sh

demo: setup ## Back up and restore a sample database through Airflow and Spark; KEEP=1 leaves it running.
	@$(IN_ENV) python -m demo

demo-stop: setup ## End what 'make demo KEEP=1' left running.
	@$(IN_ENV) python -m demo --stop

test: setup-tests lint types ## Run everything: lint, types, import floors, all tests.
	@$(IN_ENV) pytest $(PARALLEL) --durations=15

test-fast: setup ## Run the tests that start no server and take little time: under two minutes on two cores.
	@$(IN_MEMORY) $(IN_ENV) pytest $(PARALLEL) --numprocesses=$$(($$(getconf _NPROCESSORS_ONLN) * 3 / 2)) -m "not service and not e2e and not slow and not exhaustive"

test-all: setup-tests ## Run all there is: every kill step, every version, every cross term.
	@$(IN_ENV) pytest $(PARALLEL) -o faulthandler_timeout=0 -m ""

lint: setup ## Check style and import floors.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: setup ## Check types.
	$(BIN)/mypy

format: setup ## Rewrite the code in the house style.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup-tests ## Measure all but the locks, beside PostgreSQL's own and Spark's JDBC; report in bench/results/.
	@missed=0; for each in bench bench.changes bench.opening bench.encryption bench.compaction bench.replication bench.verification; do ($(IN_ENV) python -m $$each) || missed=$$?; done; exit $$missed

bench-locks: setup-tests ## Measure the locks beside a port of the paper's algorithm; report in bench/results/.
	@$(IN_ENV) python -m bench.locks

LOCK = $$UV pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--custom-compile-command 'make lock' $(LOCK_OPTIONS)

lock: setup ## Compile requirements/ anew from pyproject.toml; LOCK_OPTIONS=--upgrade takes newer versions.
	@. .work/env; \
	$(LOCK) pyproject.toml --all-extras --group dev -o requirements/dev.txt; \
	$(LOCK) --group setup -o requirements/uv.txt; \
	$(LOCK) --group go -o requirements/go.txt; \
	$(LOCK) --group node -o requirements/node.txt; \
	$(LOCK) --group postgresql --no-deps -o requirements/postgresql.txt

wheel: setup ## Build the wheel into dist/.
	$(BIN)/python -m build --wheel --no-isolation --outdir dist

clean: ## Remove everything that was built, the environment too.
	rm -rf .venv .work build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
