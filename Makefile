# SPDX-License-Identifier: Apache-2.0
# The front door. `make demo` and `make test` do all set-up by themselves: packages, configuration, build. Everything
# else is in CMakeLists.txt and CMakePresets.json; a build of preset P lies in build/P.
.DEFAULT_GOAL := help
.PHONY: help demo compare test check deps build dev release clang asan ubsan asan-ubsan tsan valgrind format install clean

JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
# More arguments, as in: make test CTEST="-R keys"    make demo DEMO="--requests 500"
# make compare COMPARE="--scale 1 --scale-many 16"
CTEST ?=
DEMO ?=
COMPARE ?=

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z -]+:.*## /{printf "  make %-22s %s\n", $$1, $$2}' Makefile

demo: deps ## a workload of agents through memory and disk, every restored byte verified
	@scripts/build.sh release selene-replay
	@scripts/demo.sh build/release $(DEMO)

compare: deps ## what thinning, packing and deferred offers save: tables and drawings in build/release/compare
	@scripts/build.sh release selene-replay
	@scripts/compare.py build/release build/release/compare $(COMPARE)

test: dev ## build and run all tests
	ctest --preset dev -j$(JOBS) $(CTEST)

check: dev ## only the checks of the tree itself: layering, style, format, symbols, ...
	ctest --preset dev -j$(JOBS) -L check $(CTEST)

deps: ## install the Debian packages that are missing
	@scripts/deps.sh

build: dev ## build everything, debug checks on

dev: deps
	@scripts/build.sh $@
release: deps
	@scripts/build.sh $@

clang: deps ## tests in a clang build
	@scripts/deps.sh clang
	@scripts/build.sh $@
	ctest --preset $@ -j$(JOBS) -LE check $(CTEST)

# Where everything is some ten times slower, seeded tests run fewer seeds.
asan ubsan asan-ubsan tsan: export SELENE_TEST_MUTATIONS ?= 800

asan ubsan asan-ubsan: deps ## tests under the sanitizers of that name
	@scripts/build.sh $@
	ctest --preset $@ -j$(JOBS) -LE check $(CTEST)

# Crash tests and simulations run on one thread: nothing to see there for the thread sanitizer, whose gcc 12 version needs
# an address space that is not randomised beyond 28 bits.
tsan: deps ## tests under the thread sanitizer
	@scripts/build.sh $@
	$(shell setarch -R true 2>/dev/null && echo setarch -R) ctest --preset $@ -j$(JOBS) -LE 'check|crash|sim' $(CTEST)

valgrind: deps ## a small demo under valgrind: no error, no leak
	@scripts/deps.sh valgrind
	@scripts/build.sh dev selene-replay
	@scripts/demo.sh --valgrind build/dev $(DEMO)

format: deps ## rewrite all C files in the house's format
	find . -path ./build -prune -o \( -name '*.[ch]' -o -name '*.cu' \) -print0 | xargs -0 clang-format-14 -i

install: deps ## install below PREFIX, by default /usr/local; DESTDIR is honoured
	@scripts/build.sh release selene selene_static selene-replay selene-bench
	cmake --install build/release --prefix $(PREFIX)

clean: ## remove all builds
	rm -rf build
