# `make help` lists the targets. Everything runs from .venv, which `make setup` builds.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
.NOTPARALLEL:

BIN := .venv/bin
# Runs a program of the environment: with the Java that setup chose, and with .venv/bin on PATH for spark-submit.
IN_ENV := set -a; . .work/env; PATH="$(CURDIR)/$(BIN):$$PATH"; exec

.PHONY: help setup setup-tests demo demo-stop cluster-up cluster-demo cluster-down cluster-logs test-fast test test-all specs durations reference docs lint types format bench bench-check bench-locks soak lock sbom audit licences images wheel clean

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Build .venv from the hashed requirements and find a Java runtime.
	@scripts/setup.sh

setup-tests: ## Set up all that tests and benches need: servers, emulators, versions of PostgreSQL, checkers of models.
	@scripts/setup_all.sh

demo: setup ## Back up and restore a sample database through Airflow and Spark; KEEP=1 leaves it running.
	@$(IN_ENV) python -m demo

cluster-up: ## Start Airflow, a Spark cluster, S3 and a shop in containers; AIRFLOW_PORT=8080, BASE=IMAGE@sha256:….
	@scripts/cluster.sh up

cluster-demo: setup cluster-up ## Back up, break things, recover and restore there: a report in some ten minutes.
	@$(IN_ENV) python -m demo.cluster

cluster-down: ## Stop what 'make cluster-up' started; VOLUMES=1 removes its data, too.
	@scripts/cluster.sh down

cluster-logs: ## Print the logs of the containers; FOLLOW=1 goes on.
	@scripts/cluster.sh logs

demo-stop: setup ## End what 'make demo KEEP=1' left running.
	@$(IN_ENV) python -m demo --stop

test-fast: setup ## Run the tests that start no server and take little time: a minute and a half on two fast cores.
	@scripts/test.sh fast

test: setup-tests ## Prove each promise at least once on the real thing, beside lint, types and import floors.
	@scripts/test.sh test

test-all: setup-tests ## Run all there is, each step, version and cross term; BUDGET=2h: a share of it; PART=sparkjobs: of one part.
	@scripts/test.sh all

specs: setup ## Check the models of specs/ alone, in full.
	@scripts/setup_specs.sh
	@scripts/test.sh specs

durations: setup-tests ## Run 'make test' and record in tests/durations.json how long tests take; TIER=all runs all there is.
	@RECORD=1 scripts/test.sh $(or $(TIER),test)

reference: setup ## Write docs/reference/: commands, operators, archives.yaml and metrics, as the code describes them.
	@$(IN_ENV) env AIRFLOW_HOME="$$(mktemp -d)" PYTHONPATH=.:plugins python scripts/write_reference.py

lint: setup ## Check style, names and import floors.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python scripts/check_names.py
	$(BIN)/lint-imports

types: setup ## Check types.
	$(BIN)/mypy

format: setup ## Rewrite the code in the house style.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup-tests ## Measure all but the locks, beside PostgreSQL's own and Spark's JDBC; report in bench/results/.
	@missed=0; for each in backup_restore changes opening encryption compaction idle operator_overhead page parse_time replicas replication scale silent_replica verification workers; do ($(IN_ENV) python -m bench.$$each) || missed=$$?; done; exit $$missed

bench-check: setup-tests ## Measure with little data, in minutes, and fail where a ratio has fallen by half; RECORD=1 writes what is to be.
	@$(IN_ENV) python -m bench.check $(if $(RECORD),--record)

bench-locks: setup-tests ## Measure the locks beside a port of the paper's algorithm; report in bench/results/.
	@$(IN_ENV) python -m bench.locks

# What a page may lead to: the site has the same folders as the repository, so that links are the same in both.
PAGES = *.md LICENSE docs specs/*.md bench/results/*.md monitoring soak/__main__.py tests/fixtures/postgresql/every_object.sql

LOCK = $$UV pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-package holdfast-locks \
	--custom-compile-command 'make lock' $(LOCK_OPTIONS)

soak: setup-tests ## Do everything at once, with faults, and check what must hold; HOURS=0.1 SEED=7: for so long, as then; RECORD=1 writes docs/reliability.md.
	@$(IN_ENV) python -m soak --hours $(or $(HOURS),0.1) $(if $(SEED),--seed $(SEED)) $(if $(RECORD),--results soak/results --page docs/reliability.md)

lock: setup ## Compile requirements/ anew from pyproject.toml; LOCK_OPTIONS=--upgrade takes newer versions.
	@. .work/env; \
	$(LOCK) pyproject.toml --all-extras --group dev -o requirements/dev.txt; \
	$(LOCK) pyproject.toml --all-extras --group image -c requirements/dev.txt -o requirements/image.txt; \
	$(LOCK) --group celery -c requirements/image.txt -o requirements/celery.txt; \
	$(LOCK) --group setup -o requirements/uv.txt; \
	$(LOCK) --group go -o requirements/go.txt; \
	$(LOCK) --group node -o requirements/node.txt; \
	$(LOCK) --group postgresql --no-deps -o requirements/postgresql.txt; \
	$(LOCK) --group applications --no-deps -o requirements/applications.txt; \
	for each in airflow mlflow oscar prefect wagtail; do $(LOCK) --group application-$$each -o requirements/applications/$$each.txt; done

docs: setup ## Build the site of the documentation in build/site, and check each link and heading in it.
	@rm -rf build/pages && mkdir -p build/pages && cp -r --parents $(PAGES) build/pages
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
	@echo "docs: look at it with: $(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site"

sbom: setup ## Write the bill of materials (CycloneDX) into build/: pinned packages, and libraries inside of wheels.
	$(BIN)/python -m scripts.supply_chain.sbom

audit: setup ## Compare both with the committed advisories, without a network; fail on one that is not accepted.
	$(BIN)/python -m scripts.supply_chain.audit

licences: setup ## Write docs/licences.md; fail on a licence that security/licences.yaml does not allow.
	$(BIN)/python -m scripts.supply_chain.licences

images: setup ## Build the container images, with a bill of materials beside each in build/images/; TAG=local, BASE=IMAGE@sha256:….
	@.ci/build-images

wheel: setup ## Build the wheel, that of the locks, and the constraint file of both into dist/.
	$(BIN)/python -m build --wheel --no-isolation --outdir dist
	$(BIN)/python -m build --wheel --no-isolation --outdir dist locking
	sed -n 's/ \\$$//; /^[a-z0-9].*==/p' requirements/image.txt > dist/constraints.txt

clean: ## Remove everything that was built, the environment too.
	rm -rf .venv .work build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
