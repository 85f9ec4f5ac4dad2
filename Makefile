# Every target sets up what it needs; a fresh machine needs Python 3.11+, make and git.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready

.PHONY: demo test lint figures bench lock clean

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tacit needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv
	PIP_CONSTRAINT=constraints.txt $(BIN)/pip install --quiet --disable-pip-version-check -e ".[dev]"
	touch $(READY)

demo: $(READY)  ## a rare-disease survey, end to end
	$(BIN)/tacit demo

test: $(READY)  ## everything that must hold
	$(BIN)/pytest

lint: $(READY)  ## style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

figures: $(READY)  ## the paper's evaluation, published beside corrected, into out/figures
	OPENBLAS_NUM_THREADS=1 $(BIN)/tacit reproduce --out out/figures

bench: $(READY)  ## gain over the proven bound, and reports per second, beside named baselines
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[bench]"
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/design.py
	$(BIN)/python benchmarks/perturb.py
	$(BIN)/python benchmarks/files.py

lock:  ## rewrite constraints.txt from the newest releases that pyproject.toml allows
	rm -rf .venv
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -e ".[dev]"
	$(BIN)/pip freeze --exclude-editable > constraints.txt
	touch $(READY)

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis out
