# Entry points. CMake builds, pytest and ctest test; this file has the order and the set-up.
#   make help      lists the targets
# Variables: DEBUG=1 debug build with asserts · SAN=address,undefined sanitizers · V=1 show commands · O=dir build folder ·
#   J=n jobs · DEPS=0 never touch distribution packages · FUZZ_SECONDS=n per fuzz target · CC=clang another compiler ·
#   SHARED=dir traces and their recorded answers: conformance is part of the tests

O ?= build$(if $(DEBUG),-debug)$(if $(SAN),-san)
J ?= $(shell nproc 2>/dev/null || echo 2)
FUZZ_SECONDS ?= 60
PYTHON ?= python3
VENV := .venv/bin
Q := $(if $(V),,@)

# The cmake of .venv replaces one of the distribution that is too old.
CMAKE = $(shell v=$$(cmake --version 2>/dev/null | sed -n 's/^cmake version \([0-9]*\)\.\([0-9]*\).*/\1 \2/p'); set -- $${v:-0 0}; \
  if [ $$1 -gt 3 ] || { [ $$1 -eq 3 ] && [ $$2 -ge 18 ]; }; then echo cmake; else echo $(VENV)/cmake; fi)
CONFIGURE = $(CMAKE) -S . -DCMAKE_RULE_MESSAGES=$(if $(V),ON,OFF) $(if $(CC_GIVEN),-DCMAKE_C_COMPILER=$(CC)) -DCMAKE_EXPORT_COMPILE_COMMANDS=ON
CC_GIVEN := $(filter-out default,$(origin CC))
BUILD = MAKEFLAGS= $(CMAKE) --build $(1) -j$(J) $(if $(V),--verbose,-- --no-print-directory -s)

.PHONY: help all demo test check docs places bench bars fuzz accept fmt wheels deps check-arm matrix gpu clean browser layers venv venv-check venv-docs venv-wheels build-tests package ready
.DEFAULT_GOAL := help

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  \1|\2/p' Makefile | awk -F'|' '{printf "  %-12s %s\n", $$1, $$2}'
	@echo "Variables: DEBUG=1 SAN=address,undefined V=1 O=dir J=jobs DEPS=0 CC=compiler FUZZ_SECONDS=60"

all: deps ## the library and the command line, in $(O)/
	$(Q)$(CONFIGURE) -B $(O) $(if $(DEBUG),-DCMAKE_BUILD_TYPE=Debug) $(if $(SAN),-DTG_SANITIZE=$(SAN)) -DTG_BUILD_TESTS=OFF $(QUIET_CMAKE)
	$(Q)$(call BUILD,$(O))

demo: package ## record a small training loop, report what slows it down, correct it, compare
	$(Q)$(VENV)/python tools/demo.py

test: ready ## everything a change must pass; installs what it needs; about 2 min after that
	$(Q)$(VENV)/python tools/suite.py --build $(O) $(if $(SHARED),--shared '$(SHARED)')

check: deps-check browser layers venv-check docs ready ## layers, formats, types, sanitizers, clang, clang-tidy, every test; 20 min
	$(Q)bash tools/check.sh

bench: package build-tests ## side by side with other tools (docs/performance.md)
	$(Q)$(VENV)/python tests/bench/bench.py
	$(Q)$(VENV)/python tests/bench/bench_page.py --view-bench $(O)/view_bench
	$(Q)$(VENV)/python tests/bench/every_question.py
	$(Q)$(VENV)/python tests/bench/hta_answers.py
	$(Q)$(VENV)/python tests/bench/recorder.py --build $(O)
	$(Q)$(VENV)/python tests/bench/cuda.py --build $(O)
	$(Q)$(VENV)/python tests/bench/ring_cost.py
	$(Q)TACHOGRAPH="$$(realpath '$(O)')/tachograph" $(VENV)/python tests/bench/attach.py
	$(Q)$(VENV)/python tests/bench/snapshot.py --bin $(O)/tachograph
	$(Q)$(VENV)/python tests/bench/cluster.py

bars: ready ## record programs with a known answer, quietly and beside a busy neighbour; 40 min; PUBLIC=dir more of them
	$(Q)TACHOGRAPH="$$(realpath '$(O)')/tachograph" $(VENV)/python tests/zoo/bars.py $(if $(PUBLIC),--public $(PUBLIC)) $(BARS)

docs: venv-docs ## the site in build/site, from docs/; no warning, no dead link, nothing from the network once .venv-docs is there
	$(Q).venv-docs/bin/python tools/site.py

places: ## fresh clones in seven places, make demo and make test in each; an hour; as root
	$(Q)bash tools/places.sh

fuzz: deps-check ## libFuzzer on every target, FUZZ_SECONDS each
	$(Q)bash tools/fuzz.sh $(FUZZ_SECONDS)

accept: build-tests package ## rewrite the golden files, the generated docs and the accepted interface, then look at git diff
	$(Q)$(VENV)/python tools/docs.py --write
	$(Q)$(VENV)/python tools/stubs.py --write
	$(Q)$(PYTHON) tools/abi.py $(O) --write
	$(Q)TACHOGRAPH="$$(realpath '$(O)')/tachograph" $(VENV)/python -m pytest -q tests/golden tests/tutorials --accept

fmt: venv-check ## clang-format over all C files, ruff over all Python files
	$(Q)find src include python tests examples -name '*.[ch]' -print0 | xargs -0 .venv-check/bin/clang-format -i
	$(Q).venv-check/bin/ruff format --quiet .

wheels: venv-wheels ## wheels and archives for any Linux with glibc 2.28, x86-64 and aarch64, in dist/; tried in fresh systems
	$(Q)[ "$(DEPS)" = 0 ] || bash tools/deps.sh wheels
	$(Q)J=$(J) .venv-wheels/bin/python tools/wheels.py
	$(Q)bash tools/try_wheel.sh dist/*.whl

deps: ## the distribution's packages (as root or with sudo; else prints the command)
	$(Q)[ "$(DEPS)" = 0 ] || bash tools/deps.sh

check-arm: ## cross-build for aarch64 without codecs, unit tests under qemu
	$(Q)[ "$(DEPS)" = 0 ] || bash tools/deps.sh arm
	$(Q)bash tools/check_arm.sh $(J)

matrix: all ## the recorder's tests on other versions of torch and Python (several GB)
	$(Q)bash tools/matrix.sh

gpu: package ## the CUDA recorder's promises on a GPU (docs/gpu.md); refuses without one. PART=name for one of them
	$(Q)$(VENV)/python tests/gpu/gpu_promises.py $(PART)
	$(Q)$(if $(PART),:,$(VENV)/python tests/gpu/gpu_memory.py)
	$(Q)$(if $(PART),:,$(VENV)/python tests/gpu/gpu_ranges.py)
	$(Q)$(if $(PART),:,$(VENV)/python tests/gpu/gpu_graphs.py)
	$(Q)$(if $(PART),:,$(VENV)/python tests/gpu/gpu_nvtx.py)

clean: ## remove everything that was built (.venv stays)
	rm -rf build build-* dist demo-out .pytest_cache .hypothesis

# Without chromium the browser tests say that they are skipped, and why.
browser:
	$(Q)[ "$(DEPS)" = 0 ] || command -v chromium >/dev/null || bash tools/deps.sh browser >browser.log 2>&1 || echo "browser: no chromium, see browser.log"

layers: ## the laws of includes and of links; builds the archives it looks at
	$(Q)[ -e $(O)/CMakeCache.txt ] || $(CONFIGURE) -B $(O) $(QUIET_CMAKE)
	$(Q)$(CMAKE) --build $(O) -j$(J) --target archives -- --no-print-directory -s >/dev/null
	$(Q)$(PYTHON) tools/layers.py --build $(O)

.PHONY: deps-check
deps-check:
	$(Q)[ "$(DEPS)" = 0 ] || bash tools/deps.sh check

venv: deps
	$(Q)PYTHON=$(PYTHON) bash tools/venv.sh

venv-check venv-docs venv-wheels:
	$(Q)PYTHON=$(PYTHON) bash tools/venv.sh $(@:venv-%=%)

QUIET_CMAKE = $(if $(V),,>$(O).log 2>&1 || { cat $(O).log; exit 1; })

# A cmake that lies in .venv is there when .venv is.
build-tests: $(if $(filter $(VENV)/%,$(CMAKE)),venv,deps)
	$(Q)$(CONFIGURE) -B $(O) $(if $(DEBUG),-DCMAKE_BUILD_TYPE=Debug) $(if $(SAN),-DTG_SANITIZE=$(SAN)) -DTG_BUILD_TESTS=ON $(QUIET_CMAKE)
	$(Q)$(call BUILD,$(O))

# pip waits for its files while the compiler works.
ready: deps
	$(Q)$(MAKE) --no-print-directory -j2 DEPS=0 venv build-tests
	$(Q)$(MAKE) --no-print-directory DEPS=0 package $(if $(DEBUG)$(SAN),,"OBJECTS_FROM=$$(realpath $(O))")

# The wheel links the objects of a build that has just been made, in a folder of its own: `pip install .` compiles.
WHEEL_OF_OBJECTS = $(if $(OBJECTS_FROM),--config-settings=build-dir=build/wheel --config-settings="cmake.define.TG_OBJECTS_FROM=$(OBJECTS_FROM)")

# Built again only when something it is made of changed: a pip install of an unchanged tree costs several seconds.
package: venv
	$(Q)if [ -n "$$(find src include python CMakeLists.txt pyproject.toml -newer .venv/package.done 2>/dev/null)" ] || [ ! -e .venv/package.done ]; then \
	  echo "package: pip install ."; \
	  $(VENV)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation $(WHEEL_OF_OBJECTS) . </dev/null && touch .venv/package.done; fi
