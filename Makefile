# Everything a newcomer runs. `make demo` and `make test` install what they need into .venv first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
READY_ALL := $(VENV)/.ready-all
READY_DOCS := $(VENV)/.ready-docs
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
DEMO := runs/demo
DEMO_PROBLEMS := 01_square_matmul 14_max_reduction 02_gemm_scale_leaky_relu 08_residual_rms_norm

.DEFAULT_GOAL := help
.PHONY: help install demo test test-all test-gpu integrity mutants lint format docs bench bench-gpu clean

help:  ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

$(READY): pyproject.toml .ci/constraints.txt .ci/setup
	@.ci/setup $(PYTHON)
	@echo "installing into $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install -c .ci/constraints.txt hatchling
	@$(PIP) install -c .ci/constraints.txt --no-build-isolation -e '.[test,lint]'
	@touch $@

$(READY_ALL): $(READY)
	@echo "installing other projects and a browser's driver into $(VENV), to test against them"
	@$(PIP) install -c .ci/constraints.txt --no-build-isolation -e '.[test,lint,interop,browser,ray]'
	@touch $@

$(READY_DOCS): $(READY)
	@echo "installing MkDocs into $(VENV)"
	@$(PIP) install -c .ci/constraints.txt --no-build-isolation -e '.[docs]'
	@touch $@

install: $(READY)  ## Install into .venv, and Debian's packages where we may

demo: $(READY)  ## Run the whole pipeline on 4 problems, with no key and no GPU
	@echo "small shapes, few timed turns, against eager only: compiling baselines takes long on a CPU"
	@$(BIN)/kernelwright run $(DEMO_PROBLEMS) --provider replay --backend cpp --strategy refine --turns 2 \
	  --enough 1 --shapes small --baselines eager --set evaluation.max_turns=6 --no-plain-build \
	  --workspace $(DEMO) --cache $(DEMO)/cache
	@rm -rf $(DEMO)/datasets
	@$(BIN)/kernelwright export sft --workspace $(DEMO) --out $(DEMO)/datasets/sft >/dev/null & sft=$$!; \
	  $(BIN)/kernelwright export trajectories --workspace $(DEMO) --out $(DEMO)/datasets/trajectories >/dev/null & all=$$!; \
	  $(BIN)/kernelwright leaderboard --workspace $(DEMO) --html $(DEMO)/leaderboard.html; board=$$?; \
	  wait $$sft; sft=$$?; wait $$all && exit $$((board + sft))
	@echo "wrote    $(DEMO)/datasets/sft and $(DEMO)/datasets/trajectories, from all runs of the demo"
	@echo "look     $(DEMO)/leaderboard.html in any browser; $(BIN)/kernelwright kernels list --workspace $(DEMO)"

test: $(READY)  ## Run the tests, offline
	@$(BIN)/python -m pytest -n 3 --dist loadgroup -m 'not gpu and not slow'

test-all: $(READY_ALL)  ## Run the tests and their slow repeats, the corpus three times
	@for name in chromium chromium-browser google-chrome; do command -v $$name >/dev/null && exit 0; done; \
	  echo "no Chromium here: tests of pages in a browser are skipped; on Debian: apt-get install chromium"
	@$(BIN)/python -m pytest -n 3 --dist loadgroup -m 'not gpu'
	@$(BIN)/python -m pytest tests/agent/cli/test_conversation.py
	@for time in 2 3; do $(BIN)/python -m pytest -m 'not gpu' tests/evaluator/test_corpus.py || exit 1; done

test-gpu: $(READY)  ## Run the tests that need a CUDA device
	@$(BIN)/python -m pytest -m gpu

integrity: $(READY)  ## Judge every attack and honest look-alike; print the table
	@$(BIN)/python tests/benchmarks/integrity.py

mutants: $(READY)  ## Change the code that decides scores in 150 places; count what the tests notice
	@$(BIN)/python tests/benchmarks/mutants.py

lint: $(READY)  ## Check formatting, style, types and import rules
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo >/dev/null || $(BIN)/lint-imports

format: $(READY)  ## Format the code and sort its imports
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format --quiet .

docs: $(READY_DOCS)  ## Build the documentation into build/site; offline once installed
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs --quiet build --clean --strict --config-file .ci/docs/mkdocs.yml
	@echo "wrote    build/site/index.html"

bench: $(READY)  ## Measure builds, judging, throughput and the archive on the CPU
	@$(BIN)/python tests/benchmarks/build.py --plain 6
	@$(BIN)/python tests/benchmarks/evaluation_latency.py cpu
	@$(BIN)/python tests/benchmarks/throughput.py cpu --limit 24 --serial 6
	@$(BIN)/python tests/benchmarks/repeatability.py cpu --kernels 3
	@$(BIN)/python tests/benchmarks/startup.py
	@$(BIN)/python tests/benchmarks/archive.py --attempts 5000

bench-gpu: $(READY)  ## Measure builds, judging and throughput on a CUDA device
	@$(BIN)/python tests/benchmarks/build.py --cuda --plain 8
	@$(BIN)/python tests/benchmarks/evaluation_latency.py cuda --problem example 02_gemm_scale_leaky_relu
	@$(BIN)/python tests/benchmarks/throughput.py cuda --serial 8
	@$(BIN)/python tests/benchmarks/repeatability.py cuda

clean:  ## Remove the environment, caches and the demo's workspace
	@rm -rf $(VENV) $(DEMO) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	@find agent evaluator tests -name __pycache__ -type d -prune -exec rm -rf {} +
