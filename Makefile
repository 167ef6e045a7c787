# Every command sets up what it needs: a virtual environment in .venv, our dependencies, Java for Spark.
PYTHON ?= python3
BIN := .venv/bin
.DEFAULT_GOAL := help
.PHONY: help run test test-slow test-spark lint types imports names check docs site bench reproduce format clean

help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

.venv/.base: pyproject.toml scripts/setup.py
	$(PYTHON) scripts/setup.py .venv base

.venv/.dev: pyproject.toml scripts/setup.py
	$(PYTHON) scripts/setup.py .venv dev

run: .venv/.base ## what balancing brings on this machine, with the page on http://127.0.0.1:8080
	$(BIN)/evenflow demo

test: check ## lint, types, imports, names, doctests, tests without the slow ones
	$(BIN)/python -m pytest -n 2 -m "not slow"

test-slow: .venv/.dev ## tests that take long: kills, services, many runs; CI runs them too
	$(BIN)/python -m pytest -n 2 -m slow tests

test-spark: build/spark-$(VERSION)/.done ## tests of Spark on another version: VERSION=4.1
	PYTHONPATH=$(<D) $(BIN)/python -m pytest tests/connectors tests/spark/test_flow.py tests/spark/test_from_spec.py

# Another PySpark, in front of the one in .venv.
build/spark-%/.done: .venv/.dev
	rm -rf $(@D)
	$(BIN)/python -m pip install --quiet --target $(@D) "pyspark==$*.*"
	touch $@

check: lint types imports names

lint: .venv/.dev ## style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.dev ## strict type check
	$(BIN)/mypy

imports: .venv/.dev ## which package may import what
	$(BIN)/lint-imports

names: .venv/.dev ## no name twice, no file too long
	$(BIN)/python scripts/check_names.py

format: .venv/.dev ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: .venv/.dev ## write the generated parts of the docs
	$(BIN)/python scripts/generate_reference.py

site: .venv/.dev ## build the documentation site, into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

bench: .venv/.dev ## measure speed and quality, see benchmarks/README.md
	$(BIN)/python -m benchmarks.planning.keys
	$(BIN)/python -m benchmarks.planning.queries
	$(BIN)/python -m benchmarks.planning.operators
	$(BIN)/python -m benchmarks.planning.controller
	$(BIN)/python -m benchmarks.runtime.sql_tasks
	$(BIN)/python -m benchmarks.runtime
	$(BIN)/python -m benchmarks.runtime.measurement

reproduce: .venv/.dev ## the papers' tables and figures at small scale, into build/reproduction
	$(BIN)/evenflow reproduce all --scale small --out build/reproduction --resume

clean: ## remove the virtual environment and caches
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
