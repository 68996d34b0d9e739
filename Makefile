# make run           set up .venv and run the main job on the built-in data
# make test          set up .venv and run style, types and tests
# make test-slow     run the tests that take minutes
# make test-kernels  run the kernels for CUDA on a CPU, by Triton's interpreter
.PHONY: run test test-slow test-kernels format clean

PYTHON ?= python3
BIN := .venv/bin
TRITON := triton==3.9.0  # not in constraints.txt: PyTorch for GPUs brings its own

# or every process that a test starts would compile the package again
unexport PYTHONDONTWRITEBYTECODE

run: .venv/runtime
	$(BIN)/rotta run

test: .venv/development
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2

test-slow: .venv/development
	$(BIN)/pytest -m slow

# beside the packages, not among them: PyTorch would take it for a sign of a GPU
test-kernels: .venv/triton/installed
	PYTHONPATH=.venv/triton TRITON_INTERPRET=1 $(BIN)/pytest -n 2 \
	  tests/nn/test_norm_kernels.py tests/nn/test_augment_kernels.py \
	  tests/memory/test_cstu_cuda.py tests/adapters/test_methods_by_kernels.py

format: .venv/development
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis build src/rotta/nn/native/*.so

.venv/runtime: pyproject.toml setup.py constraints.txt $(wildcard src/rotta/nn/native/*.[ch])
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11, 4))' || \
	  { echo 'rotta needs Python 3.11.4 or newer: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)'; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo 'installing PyTorch and what else is needed: a few minutes the first time'
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

.venv/triton/installed: .venv/development
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --upgrade --target $(@D) $(TRITON)
	@touch $@

.venv/development: .venv/runtime
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@
