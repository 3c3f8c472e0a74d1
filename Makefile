# make test   everything that must hold: lint, types, tests, doctests
# make demo   learn a small dataset in minutes, score it, and write its report
# make bench  training throughput against a plain PyTorch loop, in one run

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: test demo bench clean

test: $(VENV)/ready
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/mypy --strict src examples
	$(BIN)/python -m pytest -n auto --maxprocesses 8 --dist loadfile

demo: $(VENV)/installed
	$(BIN)/unweave demo

bench: $(VENV)/ready
	$(BIN)/python benchmarks/throughput.py

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -c "import sys; sys.exit(0 if sys.version_info >= (3, 11) else 'unweave needs Python 3.11 or newer; call make PYTHON=python3.12, say')"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

$(VENV)/ready: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) demo .mypy_cache .ruff_cache .pytest_cache
