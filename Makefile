# Every target sets up what it needs: a fresh machine needs Linux, Python >= 3.11, pip, make and gcc.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Byte code is kept, whatever the shell says: tests start hundreds of processes, and each would compile every module again.
unexport PYTHONDONTWRITEBYTECODE
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: help install install-dev demo test pytest pages browser test-slow goldens lint bench bench-compare bench-peers chaos docs clean
.DEFAULT_GOAL := help

help:
	@echo "make demo         learn on RiverSwim with and without privacy: table, figure, certificates (under 2 minutes)"
	@echo "make test         lint, type-check and test everything that is not only slow"
	@echo "make test-slow    the same with what is only slow: every golden row, long sweeps"
	@echo "make goldens      compare every golden row; BASE=<commit>: with what that commit makes here; ROWS=part"
	@echo "make lint         ruff and mypy --strict only"
	@echo "make bench        speed ratios, printed and written to benchmarks/results"
	@echo "make bench-compare BASE=<commit>: not slower than that commit, measured in alternation"
	@echo "make chaos        faults and loads against the services, on loopback, written to chaos/results"
	@echo "make bench-peers  the environment of the peers that 'make bench' then measures too"
	@echo "make docs         build the documentation with warnings as errors"

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("tacit needs Python >= 3.11, found " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml | $(BIN)/python
	$(PIP) -e .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[dev]'
	@touch $@ $(VENV)/.core

install: $(VENV)/.core

install-dev: $(VENV)/.dev

demo: $(VENV)/.core
	$(BIN)/tacit demo
	@echo "tacit is in $(BIN): run '$(BIN)/tacit -h', or 'source $(BIN)/activate' and then 'tacit -h'"

# Types are checked and pages built beside the tests: both keep one core busy for a minute. Whatever fails, make fails.
test: $(VENV)/.dev
	@$(MAKE) --no-print-directory -j 2 pytest lint pages

# Chromium from the system's packages, where nobody has to be asked for it; otherwise its tests are skipped and say so.
browser:
	@./.ci/chromium

# Three workers on two cores: one of them mostly waits, for services and browsers.
pytest: $(VENV)/.dev browser
	$(BIN)/python -m pytest -q -n 3 --dist loadfile -m "not slow"

# Everything: also what is only slow (every golden row, long sweeps of the checks, every pair of options at both speeds).
test-slow: lint pages browser
	$(BIN)/python -m pytest -q -n 2 --dist loadfile

# On any machine. BASE: the rows as the sources of another commit make them here; WRITE=yes: write them anew.
goldens: $(VENV)/.dev
	$(BIN)/python tests/goldens/make.py --only "$(ROWS)" $(if $(BASE),--base $(BASE)) $(if $(WRITE),--write)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Goes on where it was interrupted. LONG=yes: the long ones, too, about fifty minutes more; AGAIN=yes: anew.
bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks $(if $(LONG),--long) $(if $(AGAIN),--again)

# Against another version, in alternation: make bench-compare BASE=<commit>; fails where it is 5% slower.
bench-compare: $(VENV)/.dev
	$(BIN)/python -m benchmarks.compare --base $(BASE)

# Real processes on loopback, killed, restored, replayed and flooded; bounded in number and time.
chaos: $(VENV)/.dev
	$(BIN)/python -m chaos

bench-peers: $(VENV)/.dev
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/peers.txt
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade \
		--target .venv-peers/rlberry-0.6.0 rlberry==0.6.0

# The same without running the examples of the gallery, which the tests do; then every link is followed and queries searched.
pages: $(VENV)/.dev
	$(BIN)/python -m sphinx -E -a -W --keep-going -q -D plot_gallery=0 -b html docs docs/_build/pages
	$(BIN)/python docs/links.py docs/_build/pages
	$(BIN)/python docs/search.py docs/_build/pages

docs: $(VENV)/.dev
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

clean:
	rm -rf $(VENV) .venv-peers docs/_build .mypy_cache .ruff_cache .pytest_cache .hypothesis .tacit-cache
