# Every target first creates the virtual environment if it is missing or out of date.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# What `make train` trains
ENV ?= CartPole-v1
ALGO ?= ppo_ext
SEED ?= 1
# Small networks are fastest on one thread; for images, use THREADS=-1 (all cores)
THREADS ?= 1
ARGS ?=

ifneq ($(filter command,$(foreach name,env algo seed threads args,$(firstword $(origin $(name))))),)
$(error make train takes ENV=, ALGO=, SEED=, THREADS= and ARGS= in capitals)
endif

.PHONY: help setup train test test-slow lint format type clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12
	@echo 'Variables of train: ENV ALGO SEED THREADS ARGS, for example make train ENV=Pendulum-v1 ALGO=reinforce ARGS="-n 5000"'

setup: $(READY)  ## create the virtual environment

$(READY): setup.cfg setup.py pyproject.toml constraints.txt sb3_ext_autoload.pth $(wildcard sb3_ext/fast/kernel/*.[ch])
	@echo "Setting up $(VENV) (a few minutes, once)"
	$(PYTHON) -m venv $(VENV)
	PIP_CONSTRAINT=constraints.txt $(BIN)/pip install --quiet --disable-pip-version-check --editable ".[dev]"
	@touch $@

train: $(READY)  ## train an agent, print its score and how to watch it: make train ENV=LunarLander-v3 ALGO=ppo_ext
	$(BIN)/python -m rl_zoo3.train --algo $(ALGO) --env $(ENV) --seed $(SEED) --num-threads $(THREADS) -f logs $(ARGS)
	$(BIN)/python scripts/results/score.py --algo $(ALGO) --env $(ENV) -f logs --python $(BIN)/python

test: lint type  ## lint, types and tests; about 15 minutes on 2 cores
	$(BIN)/python -m pytest -m "not slow" -n auto --maxprocesses 4 --dist loadfile $(ARGS)

test-slow: $(READY)  ## learning runs that take minutes each
	$(BIN)/python -m pytest -m slow $(ARGS)

lint: $(READY)  ## check style and likely mistakes
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

format: $(READY)  ## fix what lint can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

type: $(READY)  ## check types
	$(BIN)/mypy

clean:  ## remove the virtual environment, caches and builds; logs/ stays
	rm -rf $(VENV) build dist *.egg-info sb3_ext/fast/kernel/*.so .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
