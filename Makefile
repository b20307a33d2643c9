# Everything here needs python3 (>= 3.11), a C compiler and the package index; test-spark, test-kafka and demo also Java 17.
# `make` alone lists the targets.

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
STAMP  := $(VENV)/.installed
NATIVE := $(wildcard src/ottla/_native/*.pyx src/ottla/_native/*.pxd src/ottla/_native/*.pxi src/ottla/_native/*.c src/ottla/_native/*.h)
# Cython writes NAME.c next to NAME.pyx: output, not input.
CYTHON := $(patsubst %.pyx,%.c,$(wildcard src/ottla/_native/*.pyx))
NATIVE := $(filter-out $(CYTHON),$(NATIVE))
WORKERS ?= auto
# A worker that is done takes over what is left of another's share.
PYTEST = $(PY) -m pytest -n $(WORKERS) --dist worksteal
# Tests that share brokers stay together (tests/interop/conftest.py).
PYTEST_KAFKA := $(PY) -m pytest -n $(WORKERS) --dist loadgroup
FUZZ_FRAMES ?= 1000000
FUZZ_CONNECTIONS ?= 20000
CHAOS_SEEDS ?= 2000
NEMESIS_SEEDS ?= 2000
CHAIN_RECORDS ?= 500000
COPY_RECORDS ?= 100000
SOAK_SECONDS ?= 600
SOAK_SPARK_SECONDS ?= 3600
SOAK_SPARK_BROKER ?= ottla
KILLS ?= 100
FUZZ_STEPS ?= 10000
FUZZ_SEED ?=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup test test-spark test-sim test-kafka test-kafka-full
.PHONY: chaos nemesis nemesis-disks nemesis-groups nemesis-transactions nemesis-sink
.PHONY: kills chains interleavings soak copies fuzz fuzz-kafka sanitize crash-matrix soak-spark model
.PHONY: lint format stubs bench wheel demo clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 26

setup: $(STAMP) ## a virtual environment in .venv with everything installed; quick when nothing changed

$(STAMP): pyproject.toml constraints.txt $(NATIVE) tools/preflight.py
	@$(PYTHON) tools/preflight.py python compiler
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@echo "setup: installing the tools (first time: a minute or two)"
	@$(PY) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt "pip>=25.1"
	@$(PY) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --group dev
	@echo "setup: building ottla"
	@$(PY) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .
	@touch $@
	@echo "setup: done, try .venv/bin/python"

# Each test belongs to one of the next four targets; tests/conftest.py says which markers it has.
# Most of what `test` runs waits for sockets and other processes: two tests for each core.
test: WORKERS := $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))
test: $(STAMP) ## what to run after a change: everything but the next three
	$(PYTEST) -m "not spark and not sim and not kafka and not kafka_full"

test-spark: $(STAMP) ## the tests that run Spark jobs (need Java 17)
	@$(PYTHON) tools/preflight.py java
	$(PYTEST) -m "spark and not kafka and not kafka_full and not crash_matrix"

test-sim: $(STAMP) ## simulations of many seeds, interleavings of threads, fuzzers, a short soak
	$(PYTEST) -m "sim and not spark and not kafka and not kafka_full"

test-kafka: $(STAMP) ## the interop suite against a real Apache Kafka (needs Java 17)
	@$(PYTHON) tools/preflight.py java
	$(PYTEST_KAFKA) -m kafka tests/interop tests/bench

test-kafka-full: $(STAMP) ## the interop suite with its long matrices
	@$(PYTHON) tools/preflight.py java
	$(PYTEST_KAFKA) -m "kafka or kafka_full" tests/interop tests/bench

chaos: $(STAMP) ## producing and consuming in simulations of many seeds, while everything goes wrong (CHAOS_SEEDS=N)
	OTTLA_CHAOS_SEEDS=$(CHAOS_SEEDS) $(PY) -m pytest -n $(WORKERS) --tb=short \
		tests/client/produce/test_chaos.py tests/client/produce/test_topic_chaos.py tests/client/consume/test_chaos.py

nemesis: $(STAMP) ## a replicated cluster under faults of every kind, in simulations of many seeds (NEMESIS_SEEDS=N)
	$(PY) -m tests.sim --seeds $(NEMESIS_SEEDS)

nemesis-disks: $(STAMP) ## the same on disks that fail, fill up and lose their power (NEMESIS_SEEDS=N)
	$(PY) -m tests.sim --trial disks --seeds $(NEMESIS_SEEDS)

nemesis-groups: $(STAMP) ## chains of consumer groups under the same faults, with members that come and go (NEMESIS_SEEDS=N)
	$(PY) -m tests.sim --trial groups --seeds $(NEMESIS_SEEDS)

nemesis-transactions: $(STAMP) ## chains of transactional sessions, writers and readers under more faults still (NEMESIS_SEEDS=N)
	$(PY) -m tests.sim --trial transactions --seeds $(NEMESIS_SEEDS)

nemesis-sink: $(STAMP) ## the exactly-once sink of Spark, with drivers and tasks that die and come back (NEMESIS_SEEDS=N)
	$(PY) -m tests.sim --trial sink --seeds $(NEMESIS_SEEDS)

kills: $(STAMP) ## a cluster with a data directory, killed again and again under load, and nothing acknowledged is lost (KILLS=N)
	$(PY) -m tests.broker.kills --kills $(KILLS)

chains: $(STAMP) ## chains of consumer groups, and of sessions, on sockets, with many records (CHAIN_RECORDS=N)
	OTTLA_CHAIN_RECORDS=$(CHAIN_RECORDS) $(PY) -m pytest tests/client/group/test_chains.py \
		tests/client/transactions/test_session_chains.py

copies: $(STAMP) ## topics copied in transactions while brokers and copiers are bounced, on all clusters (COPY_RECORDS=N)
	OTTLA_COPY_RECORDS=$(COPY_RECORDS) $(PY) -m pytest tests/interop/transactions/test_copies.py

crash-matrix: $(STAMP) ## the exactly-once sink of Spark, killed at every step, on both brokers: about two hours (needs Java 17)
	@$(PYTHON) tools/preflight.py java
	$(PY) -m pytest -m crash_matrix tests/interop/crashes tests/spark/soak

model: $(STAMP) ## the protocol of that sink in every order of its steps, under several faults together
	$(PY) -m tests.spark.sink.exactly_once.model

lint: $(STAMP) ## ruff and mypy --strict
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

format: $(STAMP) ## let ruff mend what it can
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

stubs: $(STAMP) ## write anew what is made from other sources: the stubs of the wire messages, the blocking admin
	$(PY) -m tools.make_stubs
	$(PY) -m tools.make_admin

fuzz: $(STAMP) ## a million damaged frames and batches, and connections full of them (FUZZ_FRAMES=N, FUZZ_CONNECTIONS=N)
	$(PY) -m tests.wire.fuzz --frames $(FUZZ_FRAMES)
	$(PY) -m tests.native.record_fuzz --batches $(FUZZ_FRAMES)
	$(PY) -m tests.broker.connection_fuzz --connections $(FUZZ_CONNECTIONS)

soak: $(STAMP) ## ten minutes of clients that come and go, and nothing may grow (SOAK_SECONDS=N)
	$(PY) -m tests.soak --seconds $(SOAK_SECONDS)

soak-spark: $(STAMP) ## an hour of two exactly-once queries in a row, with a fault every 20 s (SOAK_SPARK_SECONDS=N, SOAK_SPARK_BROKER=apache)
	@$(PYTHON) tools/preflight.py java
	$(PY) -m tests.spark.soak --seconds $(SOAK_SPARK_SECONDS) --broker $(SOAK_SPARK_BROKER)

interleavings: $(STAMP) ## every interleaving of the threads of the blocking client's driver, without a bound (ten minutes)
	$(PY) -m tests.client.blocking.driver_scenarios

fuzz-kafka: $(STAMP) ## random requests to Apache Kafka and the embedded cluster, compared (FUZZ_STEPS=N, FUZZ_SEED=N)
	@$(PYTHON) tools/preflight.py java
	$(PY) -m tests.interop.fuzz --steps $(FUZZ_STEPS) $(if $(FUZZ_SEED),--seed $(FUZZ_SEED))

sanitize: $(STAMP) ## the compiled core's tests and fuzzers under AddressSanitizer and UBSan
	$(PY) -m tools.sanitize

bench: $(STAMP) ## every benchmark, as tables (one of them: .venv/bin/python -m bench NAME [--json])
	$(PY) -m bench all

wheel: $(STAMP) ## dist/: a wheel for each Python (3.11 to 3.14) of this machine, and an sdist, installed and tried
	$(PY) -m tools.make_wheel

demo: $(STAMP) ## orders through Kafka and Spark while parts of both are killed, and the proof: a minute (needs Java 17)
	@$(PY) -m demo

clean: ## remove what was built, .venv included
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	rm -f $(CYTHON) src/ottla/_native/*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
