# Two commands do everything: `make demo` and `make test`. `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PINS := constraints/pins.txt
NATIVE := $(shell find src -name '*.pyx')
SYSTEM_CALLS := src/strandline/engine/sqlite/system_calls.c
SHARED := $(shell find src -name '*.pxd')

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all check bench bench-full clean

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(VENV)/.complete ## .venv with every extra and development dependency (quick when nothing changed)

demo: $(VENV)/.core ## many clients, the last seats, no seat sold twice; then the same log on Spark
	@$(BIN)/strandline demo --spark --install-spark '$(MAKE) --no-print-directory $(VENV)/.spark'
	@echo "To leave a server with traffic running: $(MAKE) setup, then $(BIN)/strandline demo --serve"

test: setup ## the tests, on every core
	$(BIN)/python -m pytest -n auto

test-all: setup ## those that take long too: another PostgreSQL, other JVMs, more kills
	$(BIN)/python -m pytest -n auto -m ""

check: setup ## ruff, mypy --strict, pyright, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

bench: setup ## against the peers, embedded and on PostgreSQL, in one run, with ratios (5 minutes)
	$(BIN)/python -m bench

bench-full: setup ## the same with every size and setting (hours; go on where it stopped: the same command)
	$(BIN)/python -m bench --full

clean: ## remove what make and the tests made
	rm -rf $(VENV) demo .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache $(NATIVE:.pyx=.c) $(NATIVE:.pyx=.*.so) $(SYSTEM_CALLS:.c=.*.so)

$(VENV)/.core: pyproject.toml setup.py $(NATIVE) $(SHARED) $(SYSTEM_CALLS) $(PINS)
	@test -x $(BIN)/python || $(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed: make PYTHON=python3.12 …")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install --constraint $(PINS) --editable '.[cli]'
	@touch $@

# Without the project itself, which is running when the demo comes to this.
$(VENV)/.spark: $(VENV)/.core
	@$(BIN)/python -c 'import tomllib; extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]; print(*extras["spark"], *extras["jre"], sep="\n")' > $(VENV)/spark.txt
	@$(PIP) install --constraint $(PINS) --requirement $(VENV)/spark.txt
	@touch $@

$(VENV)/.complete: $(VENV)/.core constraints/development.txt constraints/adapter.txt
	@$(PIP) install --constraint $(PINS) --editable '.[cli,postgres,spark,delta,server,grpc,eventsourcing,testing,jre]' --requirement constraints/development.txt
	@$(PIP) install --no-deps --upgrade --target $(VENV)/adapter --requirement constraints/adapter.txt
	@$(BIN)/python -m strandline.spark.class_archive > /dev/null || true # Spark starts without it too, in twice the time
	@touch $@
