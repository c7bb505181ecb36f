# Every verb sets up what it needs: a fresh machine with Python 3.11 and make has enough.
# Another PyTorch: make demo TORCH="torch==2.9.1", or with pip options behind it, such as an index.

PYTHON ?= python3
TORCH ?= torch==2.13.0
BIN := .venv/bin
# How often the long forms try.
CASES ?= 10000
ROUNDS ?= 200
# The mebibytes of junk that each importer is given.
MIB ?= 1024
# How long a service is watched under load and restarts.
MINUTES ?= 30
# Named after the requested PyTorch, so that another one sets up again.
READY := .venv/ready-$(shell printf '%s' '$(TORCH)' | cksum | cut -d' ' -f1)

# Without compiled files each process compiles what it imports, and the tests start hundreds.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup hooks demo test slow laws faults live postgresql lint fmt bench detectors failures openapi dashboards pictures golden migrate

help: ## List the verbs.
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

setup: $(READY) ## Make .venv with everything in it; the other verbs do this themselves.

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'Python 3.11 or later is needed: make PYTHON=/path/to/python3.11' >&2; exit 1; }
	@echo 'Setting up .venv: Python packages are downloaded, PyTorch among them. This takes minutes.'
	$(PYTHON) -m venv .venv
	rm -f .venv/ready-*
	$(BIN)/pip install --quiet $(TORCH)
	$(BIN)/pip install --quiet --editable '.[server,dev]'
	$(BIN)/pip install --quiet --no-deps --upgrade --target .venv/otava 'apache-otava>=0.8,<0.9'
	$(BIN)/python -m tests.builders.frameworks
	touch $@

# What the tests of `make live` need besides, of some hundred megabytes.
.venv/frameworks/complete: $(READY)
	$(BIN)/python -m tests.builders.frameworks --all
	touch $@

hooks: setup ## Test the hooks into PyTorch, and say which; another one: make hooks TORCH="torch==2.7.1".
	$(BIN)/pytest tests/client tests/scenarios/test_compile_advice.py tests/scenarios/test_several_nodes.py \
		--ignore=tests/client/frameworks --ignore=tests/client/faults \
		--long -m torch -n 2 --dist loadgroup --quiet

demo: setup ## Serve a synthetic fleet, train a small model through a crash, and show its ledger.
	$(BIN)/python examples/demo.py

test: setup ## Run the tests.
	$(BIN)/pytest -n 6 --dist loadgroup --quiet

slow: setup ## Run the tests that take many seconds each, and on PostgreSQL what SQLite has answered.
	$(BIN)/pytest --slow -m slow -n 6 --dist loadgroup --quiet

laws: setup ## Test the laws of the ledger and of the rollups on many more random cases.
	$(BIN)/pytest tests/core/test_laws.py tests/contract/test_timelines.py \
		'tests/aggregation/test_rollup_laws.py::test_rollups_sum_up_what_the_events_say[sqlite]' \
		-n 2 --quiet --hypothesis-profile=laws --cases=$(CASES) --timeout=3600

# In an environment of its own: it would be a plugin of every test.
.venv/schemathesis/complete: $(READY)
	$(PYTHON) -m venv .venv/schemathesis
	.venv/schemathesis/bin/pip install --quiet 'schemathesis>=4.32,<5'
	touch $@

faults: .venv/schemathesis/complete ## Kill processes and cut the power hundreds of times, and pass thousands of faults. This takes minutes.
	$(BIN)/pytest tests/faults tests/worker tests/client/faults $$($(BIN)/python -m tests.faults.test_documented) \
		-n 2 --dist loadgroup --quiet --long --rounds=$(ROUNDS) --timeout=3600

live: .venv/frameworks/complete ## Watch a live fleet under a real Prometheus, and train with a real compiler, JAX, Ray and Slurm.
	$(BIN)/pytest tests --ignore=tests/faults --ignore=tests/worker --ignore=tests/client/faults \
		-n 2 --dist loadgroup --quiet --long -m long --mib=$(MIB) --minutes=$(MINUTES)

postgresql: setup ## Run the tests with PostgreSQL on every version of it that is here.
	@for version in $$($(BIN)/python -m tests.builders.databases.postgres); do \
		echo "PostgreSQL $$version"; \
		ETT_TEST_POSTGRESQL=$$version $(BIN)/pytest -k postgresql -n 4 --dist loadgroup --quiet \
			--long --rounds=20 --timeout=3600 || exit 1; \
	done

lint: setup ## Check format, style, types and layers.
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

fmt: setup ## Format, and fix what can be fixed safely.
	$(BIN)/ruff check --fix --exit-zero --quiet
	$(BIN)/ruff format

bench: setup ## Measure every claim of speed; each prints a ratio.
	@missed=0; for program in benchmarks/*.py; do \
		echo "$$program"; $(BIN)/python "$$program" || missed=1; done; exit $$missed

detectors: setup ## Compare detectors of regressions on two simulated fleets of each kind. This takes minutes.
	$(BIN)/python -m benchmarks.detectors detect --fleets 2 --jobs 2

failures: setup ## Print how often the failure rules are right on real error messages.
	$(BIN)/python -m benchmarks.failures

openapi: setup ## Write docs/openapi.json anew from the routes and from recorded answers.
	$(BIN)/python -m tests.api.examples
	$(BIN)/python -m ett_service.api.openapi docs/openapi.json

dashboards: setup ## Write the dashboards and the rules anew from their programs.
	$(BIN)/python -m dashboards.build
	$(BIN)/ett rules --runbook-url http://localhost:8080/docs/runbooks \
		--dashboard-url http://localhost:3000 --output dashboards/rules

pictures: setup ## Draw the dashboards and the pages for the docs; look at what changed. This takes minutes.
	$(BIN)/python -m dashboards.pictures
	$(BIN)/python -m dashboards.pictures.pages

golden: setup ## Compare with what was recorded; write its wording anew (DATA=1: its data, too).
	$(BIN)/python -m tests.report.golden
	$(BIN)/python -m tests.golden.files $(if $(DATA),--data)

migrate: setup ## Bring the configured database to the newest schema.
	$(BIN)/ett migrate
