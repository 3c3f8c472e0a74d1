# make test   everything that must hold: lint, types, tests, doctests, the explorer in a browser
# make app    build the explorer (web/) into the package
# make demo   learn a small dataset in minutes, score it, and write its report and explorer
# make bench  training throughput against a plain PyTorch loop, in one run

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
export PYTHONDONTWRITEBYTECODE :=  # modules are compiled when they are first imported, and once

NODE_NEEDED := make test and make app need Node 20.19 or newer with npm: apt-get install nodejs npm (Debian 13), or nodejs.org

.PHONY: test lint types explorer pytest app demo bench clean

# Two at a time: Python's packages beside Node's, and types beside the explorer. The tests use all cores.
test:
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target lint types explorer
	@$(MAKE) --no-print-directory pytest

lint: $(VENV)/ready
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/ruff format --check src tests benchmarks examples

types: $(VENV)/ready
	$(BIN)/mypy --strict src examples

explorer: web/node_modules/ready
	cd web && npm run --silent check && npm run --silent test

pytest: $(VENV)/ready web/node_modules/ready
	$(BIN)/python -m pytest -n auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder

app: web/node_modules/ready
	cd web && npm run --silent build

demo: $(VENV)/installed
	$(BIN)/unweave demo

bench: $(VENV)/ready
	$(BIN)/python benchmarks/throughput.py

$(VENV)/installed: EXTRA := explorer
$(VENV)/ready: EXTRA := dev
$(VENV)/installed $(VENV)/ready: pyproject.toml constraints.txt
	$(PYTHON) -c "import sys; sys.exit(0 if sys.version_info >= (3, 11) else 'unweave needs Python 3.11 or newer; call make PYTHON=python3.12, say')"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt -e ".[$(EXTRA)]"
	touch $@

web/node_modules/ready: web/package-lock.json
	@{ node -e "process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)" && npm --version; } >/dev/null 2>&1 \
		|| { echo "$(NODE_NEEDED)" >&2; exit 1; }
	cd web && npm ci --silent
	touch $@

clean:
	rm -rf $(VENV) demo web/node_modules .mypy_cache .ruff_cache .pytest_cache
