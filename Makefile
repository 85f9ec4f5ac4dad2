# Every target sets up what it needs; a fresh machine needs Python 3.11+, make and git. What pip cannot bring (a browser,
# PostgreSQL, Java, npm) is installed on Debian as root, and named where it is missing.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
CLIENT := browser
PLAN := out/demo/plan.json

# Else each of the hundred commands that the tests start would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo serve check test attack lint docs paper screenshots figures published bench bench-peers lock clean

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tacit needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv
	PIP_CONSTRAINT=constraints.txt $(BIN)/pip install --quiet --disable-pip-version-check -e ".[dev]"
	touch $(READY)

demo: $(READY)  ## a rare-disease survey, end to end: on files, then over HTTP
	$(BIN)/tacit demo

serve: $(READY) $(PLAN)  ## the demo's survey, for your own browser, until Ctrl-C
	$(BIN)/tacit serve $(PLAN) --data out/serve --public --new-token --group-question "How old are you?"

$(PLAN): | $(READY)
	$(BIN)/python -c "from tacit.cli import demo; demo.make_plan()"

check: $(READY)  ## after every edit, in less than a minute: style and the quick tests
	$(BIN)/ruff check --quiet .
	$(BIN)/pytest -n 2 --dist worksteal -m "not slow" tests

# Some tests wait for browsers, databases and clusters most of the time: three workers for two cores.
WORKERS ?= 3
test: $(READY) $(CLIENT)/node_modules  ## everything that must hold
	tools/system-packages.sh chromium firefox-esr postgresql nginx caddy java Rscript
	$(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

MINUTES ?= 10
attack: $(READY)  ## for a night: nasty priors at random against the planner, for MINUTES; prints its seed, SEED=… repeats it
	OPENBLAS_NUM_THREADS=1 $(BIN)/python tests/attack/run.py --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

lint: $(READY) $(CLIENT)/node_modules  ## style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	cd benchmarks && MYPYPATH=.. ../$(BIN)/mypy --config-file= --ignore-missing-imports --check-untyped-defs *.py peers
	$(BIN)/lint-imports
	cd $(CLIENT) && npm run --silent types

$(CLIENT)/node_modules: $(CLIENT)/package-lock.json
	tools/system-packages.sh npm
	cd $(CLIENT) && npm ci --silent
	touch $@

docs: $(READY)  ## the site, into out/site; a broken link or an undocumented public name stops it
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "open out/site/index.html"

paper:  ## the paper's draft as a PDF, by pandoc and Chromium, into out
	tools/system-packages.sh pandoc chromium
	mkdir -p out
	pandoc paper.md --citeproc --standalone --mathml --metadata title-prefix=Tacit -o out/paper.html
	chromium-headless-shell --no-sandbox --no-pdf-header-footer --print-to-pdf=out/paper.pdf "file://$(CURDIR)/out/paper.html"

screenshots: $(READY)  ## the pages with a week of simulated answers, into docs/images
	tools/system-packages.sh chromium
	$(BIN)/python docs/screenshots.py


figures: $(READY)  ## the paper's evaluation, published beside corrected, into out/figures
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m studies

bench: $(READY)  ## gains, variances and speeds beside proven bounds, goals and named baselines
	tools/system-packages.sh wrk
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[bench]"
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/design.py
	OPENBLAS_NUM_THREADS=1 PYTHONPATH=. $(BIN)/python benchmarks/worth.py
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/ldp.py
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/intervals.py
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/many_values.py
	$(BIN)/python benchmarks/perturb.py
	$(BIN)/python benchmarks/files.py
	$(BIN)/python benchmarks/serve.py

PEERS := .venv-peers
$(PEERS)/ready: pyproject.toml constraints.txt benchmarks/peers-requirements.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -r benchmarks/peers-requirements.txt -e ".[plot]"
	touch $@

published: $(PEERS)/ready  ## Tacit on work that others published, multi-freq-ldpy in the same run: one table, into out/published.md
	OPENBLAS_NUM_THREADS=1 PYTHONPATH=. $(PEERS)/bin/python -m studies.published_work

bench-peers: $(PEERS)/ready  ## Tacit beside pure-ldp, multi-freq-ldpy, OpenDP, diffprivlib and qif, into out/peers; ARGS=--quick for minutes
	OPENBLAS_NUM_THREADS=1 PYTHONPATH=.:benchmarks $(PEERS)/bin/python -m peers $(ARGS)

lock:  ## rewrite constraints.txt from the newest releases that pyproject.toml allows
	rm -rf .venv
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -e ".[dev]"
	$(BIN)/pip freeze --exclude-editable > constraints.txt
	touch $(READY)

clean:
	rm -rf .venv $(PEERS) .pytest_cache .mypy_cache .ruff_cache .hypothesis out $(CLIENT)/node_modules
