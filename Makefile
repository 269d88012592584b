# The two commands that matter are `make train` and `make test`; each sets the machine up, builds what it needs and runs.
# `make help` lists the rest. JOBS limits parallel compilations: one needs up to 2 GB of memory.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup train test test-all test-affected test-each wheel wheels sdist docs debug threads bench check-cpus check-torch test-gpu check-jax check-models fuzz mutants format tidy lint clean

JOBS ?= $(shell tools/jobs.sh)
ARGS ?=
TORCHES ?= 2.13.0 2.15.0
PYTHONS ?= python3.11 python3.12 python3.13

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | while IFS=$$'\t' read -r name text; do printf '  make %-13s %s\n' "$$name" "$$text"; done

setup: ## Install system packages (Debian 12 or 13, Ubuntu 24.04) and make .venv with torch
	@tools/setup.sh

train: setup ## Train the GPT on the repository's text: make train ARGS="--steps 20"
	@tools/build.sh release $(JOBS) train_gpt
	@build/release/bin/train_gpt $(ARGS)

test: setup ## Build everything and run every check, and a tenth of the samples that rotate: make test ONLY=native
	@tools/test.sh ci $(JOBS)

test-all: setup ## The same with all samples; leaves the result in tests/whole_run.txt
	@DIPTYCH_TEST_PART=all tools/test.sh ci $(JOBS)

wheel: setup ## Build the Python package and leave its wheel in dist/
	@tools/build.sh ci $(JOBS) diptych_python
	@tools/wheel.sh build/ci dist

wheels: setup ## A wheel for each Python, with a library for each torch: make wheels TORCHES="2.13.0 2.15.0" PYTHONS="python3.11 python3.13"
	@tools/wheels.sh dist $(JOBS) "$(TORCHES)" $(PYTHONS)

sdist: setup ## Leave the source distribution in dist/, which pip builds where it is installed
	@tools/sdist.sh dist

docs: setup ## Build the documentation site, and say where it is
	@tools/build.sh ci $(JOBS) site

test-affected: setup ## Build and test what the changed files can affect: make test-affected ARGS=main
	@tools/build.sh ci $(JOBS) --configure-only
	@ONLY=$$(tools/affected.py ci $(ARGS)) && export ONLY && tools/test.sh ci $(JOBS)

test-each: setup ## The same with a process for each GoogleTest case
	@cmake --preset ci -DDIPTYCH_TEST_EACH=ON >/dev/null
	@status=0; tools/test.sh ci $(JOBS) || status=$$?; cmake --preset ci -DDIPTYCH_TEST_EACH=OFF >/dev/null; exit $$status

debug: setup ## Build and test with address and undefined-behaviour sanitizers
	@tools/test.sh debug $(JOBS)

threads: setup ## Build and run the tests with several threads under the thread sanitizer
	@tools/build.sh threads $(JOBS) test_compile test_backends_native test_backends_native_jit
	@ctest --preset threads -j $(JOBS) --no-tests=error

bench: setup ## Run our benchmarks and the peers beside them: make bench ARGS="'call/*' --rounds 9"
	@benchmarks/run.sh $(ARGS)

check-cpus: setup ## Run the tests as on other CPUs, and say what failed on which: make check-cpus ARGS="--only avx2 -R native"
	@tools/check_cpus.py --jobs $(JOBS) $(ARGS)

check-torch: setup ## Build and test beside another torch, in an environment of its own: make check-torch TORCH=2.15.0 ARGS="-R python.hops"
	@tools/check_torch.py $(or $(TORCH),$(error make check-torch needs the version of torch: TORCH=2.15.0)) --jobs $(JOBS) $(ARGS)

test-gpu: setup ## Test captures of CUDA tensors beside eager, where .venv's torch finds a GPU
	@tools/build.sh ci $(JOBS) diptych_python
	@tools/test_gpu.sh build/ci

check-jax: setup ## Have JAX load, run and compare what export_stablehlo writes, and what pages show of it (installs JAX, 600 MB)
	@tools/build.sh ci $(JOBS) diptych_python
	@benchmarks/setup.sh
	@rm -rf out/check-jax
	@PYTHONPATH=build/ci/python .venv/bin/python tests/python/exports/export.py out/check-jax
	@.venv-bench/bin/python tests/python/exports/check_in_jax.py out/check-jax
	@.venv/bin/python tests/docs/check_page.py docs --root . --python jax=.venv-bench/bin/python

check-models: setup ## Run small models of transformers, torchvision and timm beside eager, three trainers, and programs of ten libraries (installs them into out/, 570 MB)
	@tools/build.sh ci $(JOBS) diptych_python
	@.venv/bin/python -m pip --disable-pip-version-check install -q --no-deps --target out/models/site-packages -r tests/python/models/requirements.txt
	@PYTHONPATH=build/ci/python DIPTYCH_MODELS=out/models/site-packages .venv/bin/python tests/python/models/run.py --list $(ARGS)
	@PYTHONPATH=build/ci/python DIPTYCH_MODELS=out/models/site-packages .venv/bin/python tests/python/models/trainers.py
	@PYTHONPATH=build/ci/python DIPTYCH_MODELS=out/models/site-packages .venv/bin/python tests/python/models/programs/run.py

fuzz: setup ## Run 20,000 random programs against eager, in C++ and in Python: make fuzz ARGS="--programs 1000 --seed 7"
	@tools/build.sh ci $(JOBS) fuzz_programs diptych_python
	@build/ci/bin/fuzz_programs $(if $(ARGS),$(ARGS),--programs 20000); status=$$?; \
	PYTHONPATH=build/ci/python .venv/bin/python tests/python/fuzz/run.py --show $(if $(ARGS),$(ARGS),--programs 20000) && \
	PYTHONPATH=build/ci/python .venv/bin/python tests/python/fuzz/sequences.py --models 2000 && exit $$status

mutants: setup ## Change a clone's sources in 60 small ways, and say which test finds which: make mutants ARGS="--seed 7"
	@.venv/bin/python -m pip --disable-pip-version-check install -q --target out/mutants/site-packages --upgrade -r tools/mutants.txt
	@[ -d out/mutants/tree ] || { git clone -q . out/mutants/tree && ln -s "$$PWD/.venv" out/mutants/tree/.venv; }
	@PYTHONPATH=out/mutants/site-packages tools/mutants.py --tree out/mutants/tree --state out/mutants/state --jobs $(JOBS) $(ARGS)

lint: setup ## Check layers, format and sizes, without a build
	@tools/lint.sh

format: setup ## Format every C++ file in place
	@tools/format.sh

tidy: setup ## Run clang-tidy on the C++ files that differ from main
	@tools/build.sh ci $(JOBS) --configure-only
	@tools/tidy.sh build/ci

clean: ## Remove build folders and wheels; .venv and out/ stay
	rm -rf build dist
