# Everything a newcomer runs. `make demo` and `make test` install what they need into .venv first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
DEMO := runs/demo
DEMO_PROBLEMS := 01_square_matmul 05_odd_size_matmul 10_layer_norm 11_rms_norm 14_max_reduction 23_swish \
  02_gemm_scale_leaky_relu 08_residual_rms_norm 09_cross_entropy

.DEFAULT_GOAL := help
.PHONY: help install demo test test-all test-gpu lint format bench bench-gpu clean

help:  ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

$(READY): pyproject.toml .ci/constraints.txt .ci/setup
	@.ci/setup $(PYTHON)
	@echo "installing into $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install -c .ci/constraints.txt hatchling
	@$(PIP) install -c .ci/constraints.txt --no-build-isolation -e '.[test,lint]'
	@touch $@

install: $(READY)  ## Install into .venv, and Debian's packages where we may

demo: $(READY)  ## Run the whole pipeline on 9 problems, with no key and no GPU
	@echo "small shapes, timed against eager only: compiling baselines takes long on a CPU"
	@$(BIN)/kernelwright run $(DEMO_PROBLEMS) --provider replay --backend cpp --strategy refine --turns 2 \
	  --enough 1 --shapes small --baselines eager --workspace $(DEMO) --cache $(DEMO)/cache
	@echo "look     $(BIN)/kernelwright kernels list --workspace $(DEMO)"

test: $(READY)  ## Run the tests, offline
	@$(BIN)/python -m pytest -m 'not gpu and not slow'

test-all: $(READY)  ## Run the tests and their slow repeats
	@$(BIN)/python -m pytest -m 'not gpu'

test-gpu: $(READY)  ## Run the tests that need a CUDA device
	@$(BIN)/python -m pytest -m gpu

lint: $(READY)  ## Check formatting, style, types and import rules
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo >/dev/null || $(BIN)/lint-imports

format: $(READY)  ## Format the code and sort its imports
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format --quiet .

bench: $(READY)  ## Measure judging and the archive on the CPU
	@$(BIN)/python tests/benchmarks/judging.py cpu
	@$(BIN)/python tests/benchmarks/archive.py --attempts 5000

bench-gpu: $(READY)  ## Measure judging on a CUDA device
	@$(BIN)/python tests/benchmarks/judging.py cuda

clean:  ## Remove the environment, caches and the demo's workspace
	@rm -rf $(VENV) $(DEMO) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	@find agent evaluator tests -name __pycache__ -type d -prune -exec rm -rf {} +
