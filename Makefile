# Short names for the commands of README.md. Each makes what it needs.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: run test lint bench clean

$(BIN)/agentloop: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet -e .
	touch $@

run: $(BIN)/agentloop
	$(BIN)/agentloop compress "Why does the test run fail?" examples/shop --task debug_with_local_context --format text

test:
	PYTHON=$(PYTHON) VENV=$(VENV) bash .ci/test

lint:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench:
	$(BIN)/python bench/cold.py
	$(BIN)/python bench/index.py

clean:
	rm -rf $(VENV) build dist *.egg-info
