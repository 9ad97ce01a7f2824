# Every target sets up what it needs: a virtual environment with the tested versions.
VENV ?= .venv
PYTHON ?= python3
# A build without CUDA, on every machine.
TORCH ?= torch==2.13.0+cpu
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu

BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
# Tests run two processes; more threads in each would only contend.
ONE_THREAD := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 TORCHINDUCTOR_COMPILE_THREADS=1
# Many processes import this package, which is compiled once for all of them.
KEEP_COMPILED := PYTHONDONTWRITEBYTECODE=

# A Python that has a PyTorch with CUDA, and this package: its environment stays as it is.
GPU_PYTHON ?= python3

# The emitter that the sweeps of operators and models try.
EMITTER ?= python

# The frontend that the demo and the sweeps of operators, models and features try.
FRONTEND ?= inductor

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow test-oldest test-opencl fuzz check lint types imports docs bench bench-cpp \
	bench-fx bench-gpu bench-lowering bench-selection bench-solvers bench-memory \
	sweep-ops sweep-models sweep-models-gpu sweep-features sweep-memory sweep-ranks sweep-cpp

help:
	@echo "make setup         the virtual environment; every other target sees to it"
	@echo "make demo          compile BERT, GPT-2 and Llama; check all emitters against eager"
	@echo "make test          run the tests"
	@echo "make test-slow     run the tests that take long, which make test leaves out"
	@echo "make test-oldest   run the tests with the oldest PyTorch (2.11; downloads 3 GB once)"
	@echo "make test-opencl   the OpenCL plugin's tests on PoCL, which it installs where it may"
	@echo "make fuzz          run the tests with new random examples"
	@echo "make check         lint, types, import contracts, docs build"
	@echo "make lint          ruff; likewise make types and make imports, parts of check"
	@echo "make docs          build the documentation into docs/_build/html"
	@echo "make bench         run the benchmarks"
	@echo "make bench-cpp     time the C++ emitter's programs and their build beside AOTInductor"
	@echo "make bench-fx      time the FX emitter's graphs and their making beside PyTorch's"
	@echo "make bench-gpu     time models on a GPU beside PyTorch and Inductor; GPU_PYTHON=python3"
	@echo "                   names a Python with a PyTorch for the GPU and this package"
	@echo "make bench-lowering count bytes, time models and scheduling of our own lowering beside"
	@echo "                   Inductor (long; resumes)"
	@echo "make bench-selection time every policy of multi-kernels on one table of shapes"
	@echo "make bench-solvers plan the memory of public and generated instances"
	@echo "make bench-memory  measure peak memory of models beside the lower bound"
	@echo "make sweep-ops     PyTorch's operators through the compiler (long; resumes;"
	@echo "                   EMITTER=cpp or fx: with that emitter; FRONTEND=lowering: with kernels"
	@echo "                   of our own; likewise sweep-models and demo, which has no EMITTER)"
	@echo "make sweep-models  more model architectures through the compiler (long; resumes)"
	@echo "make sweep-models-gpu yet more of them on a GPU, with every emitter; GPU_PYTHON as above"
	@echo "make sweep-features public features of torch.compile through every emitter"
	@echo "make sweep-memory  generated programs through the passes over memory (long; resumes)"
	@echo "make sweep-ranks   generated programs of several ranks through the verifier, the passes and the"
	@echo "                   interpreter, with planted faults (20 minutes; resumes)"
	@echo "make sweep-cpp     generated programs through the C++ emitter (long; resumes)"

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt Makefile
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) ..."
	@$(PIP) install '$(TORCH)' 2>/dev/null || $(PIP) install --index-url $(TORCH_INDEX) '$(TORCH)'
	@$(PIP) install -c constraints.txt 'triton==3.7.1' -e '.[torch,testing,dev]'
	@$(BIN)/python tests/report/chromium.py
	@touch $@

demo: $(STAMP)
	$(BIN)/python -m bench.demo --frontend $(FRONTEND)

test: $(STAMP)
	$(ONE_THREAD) $(KEEP_COMPILED) $(BIN)/python -m pytest -n 2 --dist worksteal

test-slow: $(STAMP)
	$(ONE_THREAD) $(KEEP_COMPILED) $(BIN)/python -m pytest -n 2 --dist worksteal -m "slow and not sweep"

# The oldest PyTorch that is supported, from PyPI, with its packages for CUDA: 5 GB on disk.
OLDEST_TORCH := torch==2.11.0
OLDEST ?= .venv-oldest

test-oldest:
	@test -x $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	@grep -v '^torch==\|^triton==' constraints.txt > $(OLDEST)/constraints.txt
	@$(OLDEST)/bin/python -m pip --disable-pip-version-check -qq install \
	  -c $(OLDEST)/constraints.txt '$(OLDEST_TORCH)' -e '.[torch,testing,dev]'
	CUDA_VISIBLE_DEVICES= $(ONE_THREAD) $(OLDEST)/bin/python -m pytest -n 2 --dist worksteal

OPENCL_PACKAGES := pocl-opencl-icd ocl-icd-opencl-dev

test-opencl: $(STAMP)
	@dpkg -s $(OPENCL_PACKAGES) >/dev/null 2>&1 \
	  || { test "$$(id -u)" = 0 && timeout 600 apt-get install -y $(OPENCL_PACKAGES); } \
	  || echo "no OpenCL platform is installed here: apt-get install $(OPENCL_PACKAGES), as root"
	$(ONE_THREAD) $(BIN)/python -m pytest -m "not sweep" tests/plugin/test_opencl_plugin.py

fuzz: $(STAMP)
	$(ONE_THREAD) $(KEEP_COMPILED) $(BIN)/python -m pytest -n 2 --dist worksteal --hypothesis-profile=random \
	  -m "not sweep"

check: lint types imports docs

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python

imports: $(STAMP)
	$(BIN)/lint-imports

docs: $(STAMP)
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html

BENCHES := compile.imports compile.text compile.verify compile.warm_start host.python compile.adapter \
	host.python_choice

bench: $(STAMP)
	@set -e; for name in $(BENCHES); do echo "== $$name"; $(BIN)/python -m bench.$$name; done

bench-cpp: $(STAMP)
	$(ONE_THREAD) $(BIN)/python -m bench.emitter_speed cpp

bench-fx: $(STAMP)
	$(ONE_THREAD) $(BIN)/python -m bench.emitter_speed fx

bench-gpu:
	$(GPU_PYTHON) -m bench.gpu.speed $(GPU_OPTIONS)

bench-lowering: $(STAMP)
	$(ONE_THREAD) $(BIN)/python -m bench.lowering.moved_bytes
	$(ONE_THREAD) $(BIN)/python -m bench.lowering.scheduling
	$(ONE_THREAD) $(BIN)/python -m bench.lowering.cpp_kernels
	$(ONE_THREAD) $(BIN)/python -m bench.lowering.fused_kernels --write
	$(BIN)/python -m bench.lowering.models

bench-selection: $(STAMP)
	$(ONE_THREAD) $(BIN)/python -m bench.selection.quality \
	  --page docs/results/selection-cpu.md

bench-solvers: $(STAMP)
	$(BIN)/python -m bench.memory.solvers

bench-memory: $(STAMP)
	$(BIN)/python -m bench.memory.peak

sweep-ops: $(STAMP)
	$(BIN)/python -m bench.sweep.ops --emitter $(EMITTER) --frontend $(FRONTEND)

sweep-models: $(STAMP)
	$(BIN)/python -m bench.sweep.models --emitter $(EMITTER) --frontend $(FRONTEND)

sweep-models-gpu:
	$(GPU_PYTHON) -m bench.sweep.gpu_models $(GPU_OPTIONS)

sweep-features: $(STAMP)
	FRONTEND=$(FRONTEND) $(ONE_THREAD) $(BIN)/python -m pytest -n 2 -m sweep \
	  -o python_files="test_*.py public_features.py"

sweep-memory: $(STAMP)
	$(BIN)/python -m bench.sweep.memory_passes

sweep-ranks: $(STAMP)
	$(ONE_THREAD) $(BIN)/python -m bench.sweep.rank_programs

sweep-cpp: $(STAMP)
	$(ONE_THREAD) $(BIN)/python -m bench.sweep.cpp_programs
