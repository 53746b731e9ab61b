# Everything lives in .venv; the stamp keeps a second run from installing again.
PYTHON ?= python3
VENV   := .venv
BIN     = $(VENV)/bin
STAMP   = $(VENV)/.installed
# What more pip must keep to in an environment, e.g. 'pandas<3'.
ALSO   :=
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# Some that are found do not run: pyenv leaves stand-ins for versions that are not switched on.
PYTHONS = $(foreach v,3.11 3.12 3.13,$(shell python$(v) -c '' 2>/dev/null && echo python$(v)))

.PHONY: help demo serve test test-pandas2 test-all attack lint format docs package clean

help:
	@echo "make demo          set up, then do the main job on embedded data"
	@echo "make serve         the same, then open the page that answers on http://127.0.0.1:8000"
	@echo "make test          set up, then run the tests"
	@echo "make test-pandas2  the same with pandas 2, in .venv-pandas2"
	@echo "make test-all      the same with each Python from 3.11 to 3.13 on the PATH, in .venv-python3.X"
	@echo "make attack        random problems against the promise, MINUTES=1 long, from a new seed or SEED="
	@echo "make lint          ruff and mypy --strict"
	@echo "make format        let ruff put the code in shape"
	@echo "make docs          build the documents as a site, in site/"
	@echo "make package       build wheel and sdist in dist/, and check what is in them"
	@echo "make clean         remove environments, caches and what was built"

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14) and "fcxplain needs Python 3.11 to 3.13; name one with make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -e '.[dev]' $(ALSO)
	@# As pip does for what it installs: each process starts a second sooner where Python may not write bytecode.
	$(BIN)/python -m compileall -q src
	@touch $(STAMP)

# What single targets need beside, e.g. $(VENV)/.installed-docs.
$(STAMP)-%: $(STAMP)
	$(INSTALL) -e '.[$*]'
	@touch $@

demo: $(STAMP)
	$(BIN)/fcxplain demo

serve: $(STAMP)
	$(BIN)/fcxplain demo --serve

# Without bytecode, both workers rewrite every assertion, and all that they start compiles the package.
test: $(STAMP)
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 2 --dist worksteal $(TESTS)

test-pandas2:
	$(MAKE) test VENV=.venv-pandas2 ALSO="'pandas<3'"

test-all:
	@test -n "$(strip $(PYTHONS))" || { echo "no Python from 3.11 to 3.13 on the PATH"; exit 1; }
	@echo "found: $(PYTHONS)"
	@for python in $(PYTHONS); do $(MAKE) test PYTHON=$$python VENV=.venv-$$python || exit 1; done

attack: $(STAMP)
	$(BIN)/python tests/attack.py --minutes $(or $(MINUTES),1) $(if $(SEED),--seed $(SEED))

lint: $(STAMP)
	$(BIN)/ruff check src tests
	$(BIN)/ruff format --check src tests
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix src tests
	$(BIN)/ruff format src tests

docs: $(STAMP)-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

package: $(STAMP)-package
	rm -rf dist
	$(BIN)/python -m build --quiet
	$(BIN)/check-wheel-contents dist/*.whl
	$(BIN)/twine check --strict dist/*

clean:
	rm -rf $(VENV) .venv-pandas2 .venv-python3.* .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist site
