# Everything a fresh clone needs is python3 (3.11 or newer) and make, and for `make test` Chromium:
#   make demo    a trading rule over a thousand windows of a real price history, and a small safety policy
#   make test    every test, the executed docs and the built wheel, with all extras
#   make check   formatting, lint, types, architecture
#   make bench   throughput of the built-in environments
#   make docs    the manual, in site/: every block executed, every link checked
#   make screenshots    the pictures of the lab in the manual (needs Chromium, as the tests do)
# Another interpreter: make PYTHON=python3.12 test        One folder of tests: make test ARGS=tests/vector
# Tests run in two processes, a file at a time: make test WORKERS=0 in one

PYTHON ?= python3
ARGS ?=
WORKERS ?= 2
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input --quiet
export PIP_ROOT_USER_ACTION := ignore

.PHONY: help demo test check bench docs screenshots clean
.DELETE_ON_ERROR:

help:
	@sed -n '2,7s/^# *//p' Makefile

demo: $(VENV)/.installed-demo
	@echo "==> sekai demo"
	@$(BIN)/sekai demo
	@echo "==> a safety policy, and its safe set against the exact one (half a minute)"
	@rm -rf demo-safety
	@$(BIN)/sekai train safety/DoubleIntegrator-v0 --out demo-safety --steps 400000 \
	  --option failure_value=-1.0 --option n_steps=64 --option batch_size=512

test: $(VENV)/.installed-all
	@echo "==> tests, executed docs, wheel"
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(ARGS)

check: $(VENV)/.installed-dev
	@echo "==> ruff check"
	@$(BIN)/ruff check --quiet .
	@echo "==> ruff format"
	@$(BIN)/ruff format --quiet --diff .
	@echo "==> mypy --strict src"
	@$(BIN)/mypy --strict src
	@echo "==> architecture"
	@$(BIN)/python -m pytest -q tests/arch

bench: $(VENV)/.installed-demo
	@echo "==> sekai bench"
	@$(BIN)/sekai bench CartPole-v1 --num-envs 16 --mode sync --steps 5000
	@$(BIN)/sekai bench Trading-v0 --num-envs 16 --mode sync --steps 2000
	@$(BIN)/sekai bench Trading-v0 --num-envs 16 --mode native --steps 5000
	@$(BIN)/sekai bench Trading-v0 --num-envs 1024 --mode native --steps 2000
	@$(BIN)/sekai bench Trading-v0 --num-envs 16384 --mode native --steps 200

docs: $(VENV)/.installed-all
	@echo "==> executed pages, and the tools that make the manual"
	@$(BIN)/python -m pytest -q -n $(WORKERS) tests/docs
	@echo "==> mkdocs build --strict"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "==> links and public names"
	@$(BIN)/python tools/manual/links.py site
	@echo "the manual is site/index.html"

screenshots: $(VENV)/.installed-all
	@$(BIN)/python -m pytest -q tests/lab/test_pictures.py --screenshots docs/images

clean:
	rm -rf $(VENV) build dist site demo.png bench.png demo-safety .mypy_cache .pytest_cache .ruff_cache .hypothesis

# What each command needs. A stamp is older than pyproject.toml or constraints.txt when it is out of date.
$(VENV)/.installed-demo: EXTRAS := data,viz,safety
$(VENV)/.installed-dev: EXTRAS := dev
$(VENV)/.installed-all: EXTRAS := all

# The environment is made anew when its interpreter is gone (a moved clone, an upgraded system).
ifeq ($(shell test -x $(BIN)/python && echo yes),)
.PHONY: $(VENV)/.created
endif

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "sekai needs Python 3.11 or newer, and '$(PYTHON)' is: $$($(PYTHON) --version 2>&1 || true)" >&2; \
	  echo "Name another interpreter, for example: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@if [ ! -x $(BIN)/python ]; then \
	  echo "==> creating $(VENV) with $$($(PYTHON) --version)"; \
	  $(PYTHON) -m venv --clear $(VENV) || { rm -rf $(VENV); \
	    echo "$(PYTHON) cannot create a virtual environment; on Debian and Ubuntu install python3-venv" >&2; exit 1; }; \
	fi
	@touch $@

$(VENV)/.installed-%: pyproject.toml constraints.txt $(VENV)/.created
	@echo "==> installing sekai with its extras: $(EXTRAS) (minutes the first time)"
	@$(PIP) install --constraint constraints.txt hatchling
	@$(PIP) install --constraint constraints.txt --no-build-isolation --editable '.[$(EXTRAS)]'
	@$(BIN)/python -m compileall -q src
	@touch $@
