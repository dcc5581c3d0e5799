# Everything for a clone: two commands set it up, `make run` and `make test`.
# The levers: make run MODEL="gpt2-small (124M)" DEVICE=cpu DATASET=path.json

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
# Compiled afterwards on all cores: pip would do it on one.
COMPILE := $(BIN)/python -m compileall -q -j 0 $(VENV)/lib >/dev/null 2>&1 || true
ARGS   ?=

.DEFAULT_GOAL := help
.PHONY: help run up down status table chat test test-faults test-browser check bench format clean-venv

help: ## what there is
	@echo 'make run    set up .venv and fine-tune (MODEL=… DEVICE=… DATASET=… ARGS=…)'
	@echo 'make up     both web interfaces and a worker; Ctrl-C or make down ends them (ARGS=…)'
	@echo 'make status what of that runs, and where'
	@echo 'make table  the run-time table; times first what it lacks (MODEL=… DEVICE=… ARGS=…)'
	@echo 'make chat   a page to talk to the newest run, base and tuned side by side (ARGS=…)'
	@echo 'make test   set up .venv and run the tests'
	@echo 'make test-faults  the tests that start, stop and kill servers'
	@echo 'make test-browser  the tests that drive both web interfaces (needs Chromium)'
	@echo 'make check  format, lint and type check'
	@echo 'make bench  measure speed side by side (BENCH=steps|generate|tokenise|overhead for one part)'

run: $(VENV)/.installed ## fine-tune the chosen model on the chosen device
	@TWOLEVERS_HOME="$${TWOLEVERS_HOME:-$(CURDIR)}" $(BIN)/twolevers fine-tune \
	  $(if $(MODEL),--model "$(MODEL)") $(if $(DEVICE),--device "$(DEVICE)") \
	  $(if $(DATASET),--dataset "$(DATASET)") $(ARGS)

up: $(VENV)/.installed ## Prefect, MLflow and a worker, until Ctrl-C
	@TWOLEVERS_HOME="$${TWOLEVERS_HOME:-$(CURDIR)}" exec $(BIN)/twolevers up $(ARGS)

down status: $(VENV)/.installed ## end them; show what runs
	@TWOLEVERS_HOME="$${TWOLEVERS_HOME:-$(CURDIR)}" $(BIN)/twolevers $@ $(ARGS)

table: $(VENV)/.installed ## the run-time table, what it lacks timed first
	@TWOLEVERS_HOME="$${TWOLEVERS_HOME:-$(CURDIR)}" $(BIN)/twolevers table --measure \
	  $(if $(MODEL),--model "$(MODEL)") $(if $(DEVICE),--device "$(DEVICE)") \
	  $(if $(DATASET),--dataset "$(DATASET)") $(ARGS)

chat: $(VENV)/.installed $(VENV)/.chat-installed ## base and tuned side by side, on a page
	@TWOLEVERS_HOME="$${TWOLEVERS_HOME:-$(CURDIR)}" exec $(BIN)/twolevers chat --web $(ARGS)

# Two workers with one computing thread each keep both cores busy.
TWO := -n 2 --dist loadfile --no-loadscope-reorder
test: $(VENV)/.test-installed ## the tests
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(TWO) \
	  --ignore tests/faults --ignore tests/browser $(ARGS)

test-faults: $(VENV)/.test-installed ## what starts, stops and kills servers
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(TWO) tests/faults $(ARGS)

test-browser: $(VENV)/.test-installed $(VENV)/.chat-installed ## what a user does in a browser
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/browser $(ARGS)

check: $(VENV)/.test-installed ## format, lint, types
	@$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/mypy

bench: $(VENV)/.test-installed ## speed, side by side; see benchmarks/README.md
	@$(BIN)/python -m benchmarks

format: $(VENV)/.test-installed
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "twolevers needs Python 3.11 or newer; this is $$($(PYTHON) --version 2>&1)." \
	       "Name another: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 2; }
	@$(PYTHON) -m venv --clear $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/.installed: $(VENV)/bin/python requirements.lock pyproject.toml
	@echo 'Installing twolevers into $(VENV) (once; a few minutes) …'
	@$(PIP) install --quiet --no-compile -r requirements.lock
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@$(COMPILE)
	@touch $@

$(VENV)/.test-installed: $(VENV)/bin/python requirements.lock requirements-test.lock pyproject.toml
	@echo 'Installing twolevers and what its tests need into $(VENV) (once; a few minutes) …'
	@$(PIP) install --quiet --no-compile -r requirements.lock -r requirements-test.lock
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@$(COMPILE)
	@touch $(VENV)/.installed $@

$(VENV)/.chat-installed: $(VENV)/bin/python requirements.lock requirements-chat.lock
	@echo 'Installing what the page needs into $(VENV) (once) …'
	@$(PIP) install --quiet --no-compile -r requirements.lock -r requirements-chat.lock
	@$(COMPILE)
	@touch $@

clean-venv:
	rm -rf $(VENV)
