.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
NEWEST := numba llvmlite numpy

.PHONY: help setup packages programs javascript demo test test-long lint style types warm-up bench verify mutants forensics torture worst grid locked pictures docs reference newest package clean

help: ## show what there is
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 16

setup: $(READY) ## make .venv with everything for development

$(READY): pyproject.toml constraints.txt clients/typescript/package-lock.json
	@$(MAKE) --no-print-directory --jobs=3 packages programs javascript
	@touch $@

# A recent pip takes 20 seconds less, and so does leaving bytecode to the first import of a module.
packages:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade -c constraints.txt pip
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[dev]'

# The tests start a PostgreSQL, a chromium and an nginx of their own, and try alert rules with Prometheus's promtool; root can
# install them on Debian.
# The headless shell of chromium saves the tests a minute of processor time; else a chromium will do.
APT_INSTALL := DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends
programs:
	@missing=; \
	  ls -d /usr/lib/postgresql/*/bin > /dev/null 2>&1 || command -v initdb > /dev/null || missing="$$missing postgresql"; \
	  command -v nginx > /dev/null || test -x /usr/sbin/nginx || missing="$$missing nginx-light"; \
	  command -v promtool > /dev/null || missing="$$missing prometheus"; \
	  shell=; command -v chromium-headless-shell > /dev/null && shell=yes; \
	  browser=$$shell; command -v chromium > /dev/null || command -v chromium-browser > /dev/null && browser=yes; \
	  if [ -z "$$missing" ] && [ "$$shell" ]; then :; \
	  elif [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	    apt-get update -q || true; \
	    if [ "$$missing" ]; then $(APT_INSTALL) $$missing || exit; fi; \
	    [ "$$shell" ] || $(APT_INSTALL) chromium-headless-shell || [ "$$browser" ] || $(APT_INSTALL) chromium; \
	  else \
	    [ "$$browser" ] || missing="$$missing chromium"; \
	    [ -z "$$missing" ] || echo "Install$$missing to run all tests."; \
	  fi

# Where there is no node, the tests of the client for TypeScript are left out.
javascript:
	@if command -v npm > /dev/null; then \
	  npm ci --prefix clients/typescript --ignore-scripts --no-audit --no-fund --loglevel=error; \
	else \
	  echo "Install node and npm to run all tests."; \
	fi

demo: setup ## compare policies under click fraud, and write a report
	$(BIN)/armrace compare

# Bytecode is kept even where the environment says otherwise: the tests start hundreds of programs.
test: export PYTHONDONTWRITEBYTECODE :=
# Beside the colorama of our tools, Numba colours thousands of messages that nobody sees.
test: export NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING := 1
test: setup ## lint, types, import contract, doctests, tests, the README's commands
	@$(MAKE) --no-print-directory --jobs=2 types style warm-up
	$(BIN)/pytest -n auto --dist loadfile

test-long: setup ## the long forms of checks that `make test` has in a short form
	$(BIN)/pytest -n auto --dist loadfile -m long

lint: style types ## style, types and the import contract

style: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: setup
	$(BIN)/mypy

# On all cores, before the tests: else two workers would compile the same policies at the same time.
warm-up: setup
	$(BIN)/armrace warm-up

bench: setup ## speed against plain C and against other libraries
	$(BIN)/python -m benchmarks

verify: setup ## try every lemma and theorem by experiment, in the full form
	$(BIN)/armrace verify --report verification.html --force

mutants: export PYTHONPATH := tests
mutants: setup ## which claim of the quick form catches each mistake: docs/mutants.csv
	$(BIN)/python -m verification.mutants

forensics: setup ## false alarms, power and certificates of audits, for their page in the docs
	$(BIN)/python docs/experiments/forensics.py

# Each campaign can be split: SPLIT="--processes 2", or on several machines with --first, by hand.
torture: export PYTHONPATH := tests
torture: setup ## the service in a simulated world, under losses of power, kills and forgeries, the long forms: two hours
	$(BIN)/python -m torture --seeds 10000 $(SPLIT)
	$(BIN)/python -m torture.power --runs 100000 $(SPLIT)
	$(BIN)/python -m torture.power --runs 1000 --synchronous NORMAL $(SPLIT)
	$(BIN)/python -m torture.kills --kills 1000 $(SPLIT)
	$(BIN)/python -m torture.forgeries --tokens 1000000 $(SPLIT)
	$(BIN)/python -m torture.sequences --examples 10000 $(SPLIT)

worst: setup ## search for every policy's worst attack, for the arena's page and the library of winners: hours
	$(BIN)/armrace arena --worst usual --folder armrace-arena --report armrace-arena.html --force
	$(BIN)/python docs/library.py armrace-arena/worst

grid: setup ## the searches of the arena's page, on one core: many hours
	$(BIN)/python docs/grid.py armrace-grid
	$(BIN)/python docs/tails.py armrace-grid

locked: setup ## judge the policies on environments and attacks that took no part in their choice: half an hour
	$(BIN)/python docs/locked.py armrace-locked

pictures: setup ## remake the pictures of docs/images
	PYTHONPATH=tests $(BIN)/python docs/screenshots.py

docs: setup ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

reference: setup ## write the generated reference, and pin the figures of new policies
	$(BIN)/python docs/generate.py
	$(BIN)/python tests/pinning.py

newest: setup ## try the newest Numba, llvmlite and NumPy with the tests of the kernels and the pinned figures
	rm -rf $(VENV)-newest
	$(BIN)/python -m venv $(VENV)-newest
	$(VENV)-newest/bin/pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[dev]'
	$(VENV)-newest/bin/pip install --quiet --disable-pip-version-check --no-compile --upgrade $(NEWEST)
	$(VENV)-newest/bin/pip list --disable-pip-version-check | grep -E '^($(subst $() ,|,$(NEWEST))) '
	$(VENV)-newest/bin/pytest -n auto --dist loadfile tests/kernels tests/test_figures.py
	rm -rf $(VENV)-newest

# The wheel with machine code is for the Python of $(VENV); it is tried there, without HOME and with read-only packages.
package: setup ## build dist/ and client/dist/, and try the wheel that brings machine code in an empty environment
	rm -rf dist client/dist build $(VENV)-package
	$(BIN)/python -m build --no-isolation
	$(BIN)/python -m build --no-isolation client
	$(BIN)/python wheels/compile.py build/machine-code
	ARMRACE_MACHINE_CODE=build/machine-code $(BIN)/python -m build --no-isolation --wheel
	$(BIN)/python -m venv $(VENV)-package
	$(VENV)-package/bin/pip install --quiet --disable-pip-version-check -c constraints.txt dist/*-cp*.whl
	chmod -R a-w $(VENV)-package/lib
	$(BIN)/python wheels/trial.py $(VENV)-package
	chmod -R u+w $(VENV)-package/lib
	rm -rf $(VENV)-package

clean: ## remove what the other targets made
	rm -rf $(VENV) $(VENV)-package $(VENV)-newest build site dist client/dist clients/typescript/dist clients/typescript/node_modules .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
