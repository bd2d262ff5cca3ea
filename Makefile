# `make demo` runs the whole pipeline, `make test` the tests. Targets install their dependencies first:
# `demo` and `gallery` what sim2cam needs, the others linters, test tools and optional packages, too.
#
#   CAPTURES=PATH     your photos, for `make demo`    ARGS="..."   arguments of pytest or a benchmark
#   PYTHON=PATH       Python interpreter              NO_APT=1     install no system packages
#   TORCH_INDEX=URL   package index of torch

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:
.PHONY: setup demo test test-slow lint docs gallery notebooks

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
READY := $(VENV)/setup-done
READY_DEV := $(VENV)/setup-dev-done
PYTHON ?= $(shell python3.11 -c "" 2>/dev/null && echo python3.11 || echo python3)
NO_APT ?=
TORCH_INDEX ?=
CAPTURES ?=
ARGS ?=

setup: $(READY_DEV)

demo: $(READY)
	@$(BIN)/sim2cam demo --out runs/demo --overwrite $(if $(CAPTURES),--captures "$(CAPTURES)")

test: $(READY_DEV)
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow and not gpu" -n 2 --dist loadfile $(ARGS)

test-slow: $(READY_DEV)
	@$(BIN)/python -m pytest -m slow $(ARGS)

# Lint, and part of the tests, on another version of Python, if it is here: `make test-3.12`.
PART := tests/engines tests/geometry tests/scene tests/render/physics tests/render/test_golden.py \
	tests/assets/model_files tests/assets/test_readers.py tests/metrics/test_detection.py tests/learn \
	tests/experiments/test_demo.py tests/test_cli.py tests/test_packaging.py
test-3.%:
	@python=$$(for path in python3.$* $${PYENV_ROOT:-~/.pyenv}/versions/3.$*.*/bin/python; do
	  if $$path -c "" 2>/dev/null; then echo $$path; break; fi
	done)
	if [ -n "$$python" ]; then
	  $(MAKE) lint test VENV=.venv-3.$* PYTHON=$$python ARGS="$(PART)"
	else
	  echo "test-3.$*: no Python 3.$* here"
	fi

lint: $(READY_DEV)
	@$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python docs/vocabulary.py
	$(BIN)/mypy
	$(BIN)/mypy benchmarks
	$(BIN)/lint-imports

docs: $(VENV)/docs-done
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

$(VENV)/docs-done: $(READY)
	@$(PIP) install -c $(VENV)/constraints.txt -e ".[docs]"
	touch $@

gallery: $(READY)
	@OMP_NUM_THREADS=1 $(BIN)/python docs/gallery.py $(ARGS)

notebooks: $(READY_DEV)
	@OMP_NUM_THREADS=1 $(BIN)/python docs/notebooks.py $(ARGS)

bench-%: $(READY_DEV)
	@$(BIN)/python benchmarks/$*.py $(ARGS)
	$(BIN)/python benchmarks/readme_tables.py

$(READY): pyproject.toml constraints.txt Makefile $(BIN)/python
	@$(HAS_TORCH) || $(INSTALL_TORCH)
	echo "set-up: the other packages"
	$(PIN_TORCH) > $(VENV)/constraints.txt
	$(PIP) install -c $(VENV)/constraints.txt -e .
	$(HAS_OPENGL) || { $(call APT,$(MESA)); $(HAS_OPENGL); } || echo "$(NO_OPENGL)"
	touch $@

$(READY_DEV): $(READY)
	@echo "set-up: linters, test tools and optional packages"
	$(PIP) install -c $(VENV)/constraints.txt -e ".[dev,catalog,search,export,lpips,panoramas,tensorboard]"
	touch $@

$(BIN)/python:
	@if ! $(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))"; then
	  echo "sim2cam needs Python 3.11 to 3.13. Name one: make PYTHON=/path/to/python3.13"; exit 1
	fi
	$(PYTHON) -c "import ensurepip, venv" 2>/dev/null || { $(call APT,$(VENV_PACKAGE)); }
	$(PYTHON) -m venv --clear $(VENV)

# Keep an installed torch of a supported version, whatever its build.
HAS_TORCH = $(BIN)/python -c 'import sys; from importlib.metadata import version; \
	sys.exit([int(n) for n in version("torch").split(".")[:2]] < [2, 5])' 2>/dev/null
INSTALL_TORCH = $(PIP) install $(if $(TORCH_INDEX),--index-url "$(TORCH_INDEX)",-c constraints.txt) \
	$$(grep -E "^torch(vision)?==" constraints.txt)
PIN_TORCH = { $(PIP) list --format=freeze | grep -E "^torch(vision)?=="; \
	grep -vE "^torch(vision)?==" constraints.txt; }

# Headless OpenGL: Mesa's llvmpipe with EGL, or a GPU driver.
MESA := libegl1 libgl1 libgl1-mesa-dri
HAS_OPENGL = $(BIN)/python -c 'from sim2cam.pipeline.doctor import check_opengl; \
	check = check_opengl(); print("set-up: OpenGL:", check.status); raise SystemExit(not check.ok)'
NO_OPENGL := set-up: no OpenGL; renders come from pybullet's TinyRenderer

VENV_PACKAGE = $$($(PYTHON) -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
APT_LINE = apt-get install -y --no-install-recommends $(1)
APT = echo "set-up: missing here. Cure: $(APT_LINE)"; $(if $(NO_APT),true,\
	if [ "$$(id -u)" = 0 ] && command -v apt-get; then \
	export DEBIAN_FRONTEND=noninteractive; apt-get update && $(APT_LINE); fi)
