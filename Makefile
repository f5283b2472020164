# Every target works as the first command after `git clone`: .venv is set up if it is missing or out of date.
#
#   make setup   .venv with everything, from the pinned lists of requirements/
#   make grid    the grid of config/config.yaml, as `snakemake --cores all` does
#   make quick   the smallest grid that shows the point, config/quick.yaml
#   make study   the controllers in simulation, config/study.yaml
#   make test    linters, unit tests, integration tests, a Slurm of one node, one moment of every fault
#   make faults  every fault at 20 moments, on both stacks: about four hours on two cores
#   make bench   the benchmarks of tests/bench, as one table
#   make lint    ruff and snakefmt, without changing a file
#
# PYTHON=/path/to/python3.11 uses that Python. pip installs the torch that its own configuration finds: unless that is a
# CPU build, it is PyPI's CUDA build with its libraries (several GB more). For the small CPU build:
#   make setup TORCH_INDEX=https://download.pytorch.org/whl/cpu
# GPU=1 installs the openrlhf stack for CUDA (requirements/gpu.txt) instead of the one for CPUs.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.ONESHELL:
.SILENT:
.PHONY: setup grid quick study test faults bench lint

PYTHON ?= python3.11
TORCH_INDEX ?=
GPU ?=
OPENRLHF := requirements/$(if $(GPU),gpu,openrlhf).txt
NEEDED_MB := 6000
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
STAMP := .venv/.sagc-complete$(if $(GPU),-gpu)
DOCTESTS := sagc/__init__.py sagc/controllers/sagc.py sagc/controllers/static.py sagc/controllers/robust.py sagc/controllers/registry.py sagc/lengths.py sagc/evaluation/overlap.py sagc/posterior.py sagc/data/stream.py

# Snakemake and the libraries keep caches below HOME. If that is not writable, they are kept here.
CACHE := d="$${XDG_CACHE_HOME:-$${HOME:-$$(echo ~)}/.cache}"; mkdir -p "$$d" 2> /dev/null && [[ -w $$d ]] && echo writable
ifneq ($(shell $(CACHE)),writable)
export XDG_CACHE_HOME := $(CURDIR)/.snakemake/cache
endif

setup: $(STAMP)

grid: $(STAMP)
	$(BIN)/snakemake --cores all

quick: $(STAMP)
	$(BIN)/snakemake --cores all --configfile config/quick.yaml
	sed '/^## Columns/,$$d' results/quick/summary.md

study: $(STAMP)
	$(BIN)/snakemake --snakefile workflow/study.smk --cores all
	sed '/^## Columns/,$$d' results/study/verdict.md

test: lint
	$(BIN)/python -m pytest -n auto --doctest-modules tests/unit $(DOCTESTS)
	$(BIN)/python -m pytest tests/integration tests/slurm tests/faults

faults: $(STAMP)
	$(BIN)/python -m tests.faults

bench: $(STAMP)
	$(BIN)/python -m tests.bench

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile workflow

# The stamp comes last: without it the next call continues where this one was interrupted.
$(STAMP): requirements/build.txt requirements/base.txt $(OPENRLHF) requirements/dev.txt pyproject.toml
	fail() { echo "Error: $$1" >&2; exit 2; }
	command -v "$(PYTHON)" > /dev/null || fail "$(PYTHON) is not on PATH; install Python 3.11 (Debian: apt-get install python3.11 python3.11-venv) or run make with PYTHON=/path/to/python3.11"
	found=$$("$(PYTHON)" -c 'import platform; print(platform.python_version())') || fail "$(PYTHON) does not run"
	[[ $$found == 3.11.* ]] || fail "$(PYTHON) is Python $$found, and the pinned packages need Python 3.11; run make with PYTHON=/path/to/python3.11"
	"$(PYTHON)" -c 'import ensurepip, venv' 2> /dev/null || fail "$(PYTHON) cannot make virtual environments; install its venv module (Debian: apt-get install python3.11-venv)"
	if [[ ! -d .venv ]]; then
	    free=$$(df -Pm . | awk 'NR == 2 {print $$4}')
	    (( free >= $(NEEDED_MB) )) || fail "the set-up needs $(NEEDED_MB) MB of free disk, and $$PWD has $$free MB"
	fi
	echo "Setting up .venv (4 GB, about four minutes)"
	"$(PYTHON)" -m venv .venv
	# A package looks installed even if pip was killed while installing it: pip writes INSTALLER after the package's files, so it is missing.
	for info in .venv/lib/python3.11/site-packages/*.dist-info; do
	    [[ -e $$info/INSTALLER ]] || rm -rf "$$info"
	done
	$(PIP) install --no-deps -r requirements/build.txt
	if [[ -n "$(TORCH_INDEX)" ]]; then
	    $(PIP) install --no-deps --index-url "$(TORCH_INDEX)" "$$(grep '^torch==' requirements/base.txt)"
	else
	    $(PIP) install --constraint requirements/build.txt --constraint requirements/base.txt torch # with dependencies: the libraries of a CUDA build
	fi
	$(PIP) install --no-deps --no-build-isolation -r requirements/base.txt -r requirements/dev.txt
	DS_BUILD_OPS=0 $(PIP) install --no-deps --no-build-isolation -r $(OPENRLHF)
	$(PIP) install --no-deps --no-build-isolation --editable .
	echo "Checking the imports"
	DS_ACCELERATOR=cpu $(BIN)/python -c 'import torch, trl, transformers, ray, deepspeed, vllm, lm_eval, math_verify, snakemake, pandas, matplotlib, pytest, hypothesis, sagc.cli' || fail "the set-up is incomplete (see the error above); run make setup again, or remove .venv first"
	touch $@
