# Every target that runs something prepares .venv first. Details: CONTRIBUTING.md
.DEFAULT_GOAL := help
.PHONY: help setup dev-setup test-setup node-setup bench-setup up test test-mcp test-clients client-setup check reference man markets release screenshots format kills kills-carrier fuzz bench bench-quick clean

# The interpreter for .venv. Empty: the one .venv has already, else python3.
PYTHON ?=
# How often `make kills` kills the broker.
N ?= 1000
# How many processes `make test` runs the tests in.
WORKERS ?= 6
# How long `make fuzz` goes on.
MINUTES ?= 10

# `write`: make test-clients writes docs/delivery-matrix.md.
TELLWIRE_MATRIX ?=

BIN := .venv/bin

# Bytecode is kept, whatever the shell says: else every process of every test compiles what it imports.
unexport PYTHONDONTWRITEBYTECODE

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install tellwire into .venv, and nothing else (PYTHON=python3.13 chooses the interpreter)
	@PYTHON='$(PYTHON)' scripts/setup run

dev-setup:
	@PYTHON='$(PYTHON)' scripts/setup dev

bench-setup:
	@PYTHON='$(PYTHON)' scripts/setup dev redis-server

up: setup ## run the broker in the foreground
	@exec $(BIN)/tellwire up

test-setup:
	@PYTHON='$(PYTHON)' scripts/setup dev zsh tmux
	@scripts/setup-debs openssh-server openssh-client sudo cron redis-server
	@scripts/setup-wheels

WITHOUT_PROGRAMS = --ignore=tests/mcp --ignore=tests/end_to_end

# Six at a time on two cores: the tests of processes wait more than they work. All tests of a file run in one
# worker, the longest files first (tests/conftest.py). The counter counts tests that are done.
# What fails is played once more, alone, and that is told: a test that fails twice fails the run.
test: test-setup ## run the whole test suite, but for what needs foreign programs (WORKERS=6)
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder \
		-o console_output_style=count $(WITHOUT_PROGRAMS) || { \
		echo '=== unsteady: what failed is played again, alone'; \
		$(BIN)/python -m pytest -q --last-failed --last-failed-no-failures none $(WITHOUT_PROGRAMS); }

node-setup: dev-setup
	@scripts/setup-node

client-setup: dev-setup
	@PYTHON='$(PYTHON)' scripts/setup dev tmux
	@scripts/setup-clients

# Two at a time: a client waits more than it works. What fails is played again, alone, at most twice, and each run
# is told: clients start slowly on a busy machine. Failing three times fails the run.
AGAIN = $(BIN)/python -m pytest --last-failed --last-failed-no-failures none tests/end_to_end
test-clients: client-setup ## the real agent CLIs through tellwire, against a scripted model: the delivery matrix
	@TELLWIRE_MATRIX='$(TELLWIRE_MATRIX)' $(BIN)/python -m pytest -n 2 tests/end_to_end || { \
		echo '=== unsteady: what failed is played again'; $(AGAIN); } || { \
		echo '=== unsteady: what failed twice is played for the last time'; $(AGAIN); }

test-mcp: node-setup ## let the MCP Inspector and the conformance suite test the MCP server
	@$(BIN)/python -m pytest tests/mcp

check: dev-setup ## formatting, lint, types, layers, the requirements manifest
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/basedpyright
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python scripts/reference.py --check
	@$(BIN)/python scripts/markets.py --check
	@$(BIN)/python -m pytest -q tests/test_requirements.py

reference: dev-setup ## write the references in docs/ from the code
	@$(BIN)/python scripts/reference.py

markets: dev-setup ## write market/, the files of the clients' markets, from the code
	@$(BIN)/python scripts/markets.py

# Owner of the repository, for `make release`.
OWNER ?=
release: dev-setup ## name the owner, write what follows from it, build wheel and sdist (OWNER=name)
	@$(BIN)/python scripts/release.py '$(OWNER)'
	@$(BIN)/python scripts/markets.py
	@$(BIN)/python -m hatchling build -d dist

man: setup ## write the man pages into build/man, from the help
	@$(BIN)/python scripts/manpages.py build/man

screenshots: dev-setup ## write docs/pictures from the console itself
	@$(BIN)/python -m tests.surfaces.console_pictures

format: dev-setup ## format the code and apply the safe lint fixes
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

kills: dev-setup ## kill the broker N times under load and count what is lost (N=1000)
	@$(BIN)/python -m tests.integration.kills --kills $(N)

kills-carrier: bench-setup ## kill Redis N times under load between two machines and count what is lost (N=1000)
	@$(BIN)/python -m tests.integration.kills_carrier --kills $(N)

fuzz: dev-setup ## try changed input on the doors of a real broker (MINUTES=10)
	@$(BIN)/python -m tests.fuzz --minutes $(MINUTES)

bench: bench-setup ## measure tellwire against Redis Streams and the naive broker
	@$(BIN)/python -m bench

bench-quick: bench-setup ## the same in a minute, with wider error bars
	@$(BIN)/python -m bench --quick

clean: ## remove .venv, caches and build output
	@scripts/warn-clean
	rm -rf .venv .venv.lock .node .clients .debs .wheels build dist .pytest_cache .hypothesis .ruff_cache .import_linter_cache
	find src tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
