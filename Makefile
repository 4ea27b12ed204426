# One entry point for people and for CI. Needs Python >= 3.11, make and a package index.
# Every target sets up .venv by itself; PYTHON=python3.12 picks another interpreter for it.

PYTHON ?= python3
DPMM_PYTHON ?= python3.11
VENV   ?= .venv
ARGS   ?=
# whole files to each worker, so that what a file compiles is compiled once; few workers, as each holds it in memory
PARALLEL ?= -n auto --maxprocesses 4 --dist loadfile
BIN    := $(VENV)/bin
PIP     = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# A stamp per set of extras: pip runs again only when what it reads has changed.
DEV   := $(VENV)/.stamp-dev
DOCS  := $(VENV)/.stamp-docs
PEERS := $(VENV)/.stamp-peers
DPMM  := $(VENV)/dpmm/.stamp

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv demo test test-all audit lint format bench dpmm docs constraints clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/:[^#]*## /\t/' | \
	  while IFS="$$(printf '\t')" read -r target what; do printf '  make %-12s %s\n' "$$target" "$$what"; done

venv: $(DEV) ## create .venv and install veilflow with what its tests need

demo: $(DEV) ## fit a private flow on generated data; leaves its results in demo/
	$(BIN)/veilflow demo --out demo $(ARGS)

test: $(DEV) ## run the tests, except those marked slow
	$(BIN)/python -m pytest -q -m "not slow" $(PARALLEL) $(ARGS)

test-all: $(DEV) ## run every test, slow ones included
	$(BIN)/python -m pytest -q $(PARALLEL) $(ARGS)

audit: $(DEV) ## attack and measure the engine, and engines broken on purpose (under half an hour)
	$(BIN)/python -m pytest -q tests/audit tests/hostile tests/lessons $(PARALLEL) $(ARGS)
	$(BIN)/python -m benchmarks audit fuzz kills

lint: $(DEV) ## ruff (lint and format) and pyright
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: $(DEV) ## let ruff fix and format what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(PEERS) ## measure veilflow against its peers (installs them first)
	$(BIN)/python -m benchmarks $(ARGS)

dpmm: $(DPMM) ## AIM and MST to measure tables against, in an environment of their own (DPMM_PYTHON=python3.11)

docs: $(DOCS) ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict $(ARGS)

constraints: $(DEV) ## recompute constraints.txt for every supported Python (ARGS=--upgrade for newer ones)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip compile --quiet --universal pyproject.toml --extra dev --extra docs --extra peers --extra fid \
	  --python-version 3.11 --no-header --no-annotate $(ARGS) -o constraints.txt

clean: ## remove what the other targets made, .venv included
	rm -rf $(VENV) demo site dist build .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# pip is the last thing venv writes, so its presence says that the environment is whole.
$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "veilflow needs Python >= 3.11, and $(PYTHON) is older or missing. Try: make PYTHON=python3.12 ..."; exit 1; }
	@echo "creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(DEV): pyproject.toml constraints.txt | $(BIN)/pip
	@echo "installing veilflow and its test tools into $(VENV): a minute or two, once"
	@$(PIP) -e '.[dev]'
	@touch $@

$(DOCS): $(DEV)
	@echo "installing the documentation tools into $(VENV)"
	@$(PIP) -e '.[dev,docs]'
	@touch $@

$(PEERS): $(DEV)
	@echo "installing the peers to measure against into $(VENV): large, once"
	@$(PIP) -e '.[dev,peers]'
	@touch $@

# Beside veilflow it cannot be: it pins NumPy 1.26, pandas 2.1 and OpenDP 0.12, and Python below 3.12.
$(DPMM): | $(BIN)/pip
	@echo "installing dpmm into $(VENV)/dpmm: half a gigabyte, once"
	@$(DPMM_PYTHON) -m venv $(VENV)/dpmm
	@$(VENV)/dpmm/bin/python -m pip install --quiet --disable-pip-version-check dpmm==0.1.9
	@touch $@
