# make demo | test | test-deep | lint | docs | clean.  Each makes what it needs of the environment in .venv, once.
#
# PYTHON=...       the interpreter that the environment is made from (3.11 or newer)
# PYTEST_ARGS=...  passed on to pytest: make test PYTEST_ARGS="-k matmul --update-golden"

PYTHON ?= python3
PYTEST_ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-deep lint docs clean

help:
	@echo "make demo    a tiled matrix product, from text to numbers"
	@echo "make test    the tests"
	@echo "make test-deep"
	@echo "             the tests with every case, a quarter of an hour on two cores: make test takes samples of the long ones"
	@echo "make lint    ruff and mypy"
	@echo "make docs    the documentation, into docs/_build/html"
	@echo "make clean   remove the environment and everything built"

demo: $(VENV)/.base
	$(BIN)/python examples/demo.py

test: $(VENV)/.test
	$(BIN)/python -m pytest -n auto --dist worksteal $(PYTEST_ARGS)

test-deep: $(VENV)/.test
	LOOPKIT_DEEP=1 $(BIN)/python -m pytest -n auto --dist worksteal $(PYTEST_ARGS)

lint: $(VENV)/.test
	$(BIN)/python -m ruff check .
	$(BIN)/python -m mypy --strict loopkit

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

clean:
	rm -rf $(VENV) docs/_build docs/notebooks build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find . -maxdepth 1 -name '*.egg-info' -exec rm -rf {} +

# A changed pyproject.toml makes a new environment: an installed package that it no longer names would hide a fault.
$(VENV)/.base: pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "loopkit needs Python 3.11 or newer; '$(PYTHON)' is not there (make PYTHON=...)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "loopkit needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -V 2>&1) (make PYTHON=...)" >&2; exit 1; }
	@echo "making $(VENV) ($$($(PYTHON) -V))"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(PIP) install --editable .
	@touch $@

$(VENV)/.test: $(VENV)/.base
	@echo "installing what the tests need"
	@$(PIP) install --editable '.[test]'
	@touch $@

$(VENV)/.docs: $(VENV)/.base
	@echo "installing what the documentation needs"
	@$(PIP) install --editable '.[docs]'
	@touch $@
