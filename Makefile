# What there is to run. `make setup` makes .venv; the others call it, and nothing is installed twice.
.DEFAULT_GOAL := help
.PHONY: help setup java demo test test-all unit quick coverage interchange ecosystem test-stores test-zookeeper test-classic check up down kills kills-spark migration chaos suites sim fuzz mutants zoo bench bench-controller bench-scale bench-spark parity docs wheels jars clean

VENV   := .venv
PY     := $(VENV)/bin/python
MODE   ?= kraft
PLANE  ?= $(MODE)
DATA   ?= moldau-data
PYTEST := $(PY) -m pytest
BESIDE := $(PY) -m tests.beside

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

setup: $(VENV)/.ready  ## the environment in .venv (says what it downloads)

$(VENV)/.ready: pyproject.toml constraints.txt scripts/doctor.sh
	@python=$$(sh scripts/doctor.sh) && { test -x $(PY) || $$python -m venv $(VENV); }
	@echo "setup: installing Moldau and its tools into .venv (about 1.3 GB installed; PySpark is most of it)"
	@$(PY) -m pip install -q -c constraints.txt -e '.[demo,hdfs,iceberg,pipeline,s3,test]'
	@$(PY) -m compileall -q src/moldau  # pip does it for a wheel; uncompiled, a broker's start takes twice the time
	@touch $@

java:
	@sh scripts/doctor.sh java

demo: java setup  ## three nodes, 336,776 flights, a pipeline, a killed broker, a report
	@$(VENV)/bin/moldau demo --mode $(PLANE)

up: setup  ## a cluster to play with
	@$(VENV)/bin/moldau up --mode $(PLANE) --data $(DATA) --detach

down: setup  ## stop it
	@$(VENV)/bin/moldau down --data $(DATA)

STYLE := set -ex; $(VENV)/bin/ruff check src tests bench; $(VENV)/bin/ruff format --check src tests bench; \
	$(VENV)/bin/lint-imports; $(PYTEST) -q tests/tidy

# Side by side, as mypy keeps one core busy for as long as it takes.
check: setup  ## ruff, mypy, import contracts, tidy budgets
	@$(BESIDE) '$(VENV)/bin/mypy' '$(STYLE)'

jars: setup  ## Apache Kafka's jars through Maven, for the peer and the Java clients
	@sh bench/jars/get.sh

# The clients in the other mode too; `make test-zookeeper` is all that can run there. What starts clusters of its own,
# of whichever plane it is about, may go with either step: these go with the shorter one.
CLIENTS := client foreign_aiokafka foreign_codecs foreign_confluent foreign_groups foreign_java foreign_kafka_python \
	foreign_kcat admin_bad_input admin_commands admin_tools
ON_THEIR_OWN := chaos migration old_java_tools plane_zookeeper zookeeper_contract zookeeper_directories \
	zookeeper_ensemble zookeeper_lost zookeeper_wiped dynamic_voters fuzz fuzz_cluster answers admin_kills admin_load \
	bad_start classic_zookeeper consume_without_leader doctor_without_controller doctor_zookeeper group_failover \
	kafka_39_folders old_formats spark_elections adopt_zookeeper kills mixed_administration mixed_exactly_once mixed_kraft mixed_transactions mixed_voters \
	mixed_zookeeper moves_elsewhere \
	paused_broker paused_leader paused_node reassign_apply state_change_merger storage_files without_controller dump_coordinators
LIVE = $(1:%=tests/live/test_%.py)

# Each worker that Spark starts compiles PySpark again, a second of processor time, unless its zip holds compiled modules.
$(VENV)/.spark-zip: tests/spark_zip.py $(VENV)/.ready
	@$(PY) -m tests.spark_zip
	@touch $@

# A Spark that lives for seconds spends half of its processor time on loading classes, which a file spares it.
$(VENV)/spark-classes.jsa: tests/spark_classes.py $(VENV)/.spark-zip
	@if command -v java >/dev/null; then \
		$(PY) -m tests.spark_classes $@ || echo "test: Spark's JVMs start without shared classes"; fi

# The same of a ZooKeeper: a third of the processor time of its start.
$(VENV)/zookeeper-classes.jsa: tests/zookeeper_classes.py $(VENV)/.ready
	@if command -v java >/dev/null; then \
		$(PY) -m tests.zookeeper_classes $@ || echo "test: ZooKeeper's JVMs start without shared classes"; fi

# The campaign counts on every core, and begins while mypy is still busy with one; what is live waits a lot, so each plane
# goes beside the other, and two processes share the files that start clusters of their own.
# Of the last, one process takes what is live, another what is live with Spark, a third what is live with Kafka's tools, a
# fourth the packages; who ends first helps with the packages that are left (tests/conftest.py).
# What takes long (tests/long.txt) is left out, and three quarters of the campaign: see test-all.
SHORT := --short
SEEDS := --machines 500 --nodes 50
CAMPAIGN = $(PY) -m moldau.simulator.campaign $(SEEDS)

# What cannot be imported fails here, and not after ten minutes. pytest keeps what it makes of each test file, which each
# of four processes would make for itself, all at once: 17 s of processor time each.
unexport PYTHONDONTWRITEBYTECODE
COLLECT := $(PYTEST) -q --collect-only tests >/dev/null || { $(PYTEST) -qq --collect-only tests; exit 1; }

test: setup $(VENV)/spark-classes.jsa $(VENV)/zookeeper-classes.jsa  ## all but what takes long; what needs a program that is missing is left out, and says so
	@sh scripts/doctor.sh test
	@if command -v java >/dev/null && command -v mvn >/dev/null; then sh bench/jars/get.sh || echo "test: tests with Apache Kafka are left out"; fi
	@$(BESIDE) '$(VENV)/bin/mypy' '$(STYLE); $(COLLECT); $(CAMPAIGN)'
	@$(BESIDE) 'MOLDAU_LIVE_SYSTEM=moldau-zookeeper $(PYTEST) -q $(SHORT) $(ARGS) -n 2 --dist loadscope --apart $(call LIVE,$(CLIENTS) $(ON_THEIR_OWN))' \
		'$(PYTEST) $(SHORT) $(ARGS) --hypothesis-profile=landing -n 6 --dist loadscope tests --ignore tests/tidy \
		$(addprefix --ignore ,$(call LIVE,$(ON_THEIR_OWN)))'

test-all: SHORT :=
test-all: SEEDS :=
test-all: test  ## everything, for before a release: the long tests, too, and the whole campaign (40 minutes)

# What needs no process, socket or file: the packages that decide. Every version of every message, simulated quorums, and
# decisions about thousands of partitions take longer than all others together.
UNIT := $(wildcard $(addprefix tests/packages/,model wire image controller quorum replication groups history)) \
	$(addprefix --ignore tests/packages/,wire/test_messages.py quorum/test_simulation.py quorum/test_voter_changes.py \
	quorum/test_voter_mutants.py controller/test_large_topics.py controller/test_batched.py controller/test_scale.py \
	controller/test_parts.py wire/test_scan.py)

unit: setup  ## the tests of the packages that only decide, without the longest: seconds
	@$(PYTEST) -q --hypothesis-profile=seconds -n 2 --dist load $(UNIT) $(ARGS)

# Every version of every message, every setting, simulated quorums, a crash or damage at every place of a log and in every
# znode, requests of random bytes, migrations, and all formats of tables are more than half of it.
OF_ALL := $(addprefix --ignore tests/packages/,simulator package wire/test_messages.py wire/test_scan.py wire/test_slices.py \
	quorum/test_simulation.py quorum/test_voter_mutants.py storage/test_swap.py storage/test_damage.py \
	storage/test_crashes.py storage/test_lost_segments.py storage/test_cleaning.py controller/test_parts.py \
	controller/test_batched.py controller/test_large_topics.py controller/test_scale.py broker/test_setting_values.py \
	broker/test_zookeeper_foreign_znodes.py broker/test_group_log.py admin/test_planning.py spark/test_table_formats.py \
	spark/test_decode.py spark/test_table_commands.py spark/test_table_faults.py spark/test_delta_log.py \
	pipeline/test_copied.py broker/test_request_fuzz.py storage/test_no_files.py broker/test_migration.py \
	broker/test_kept_out.py broker/test_zookeeper_unread_partitions.py broker/test_zookeeper_bad_znodes.py \
	broker/test_zookeeper_removed.py broker/test_hung_directory.py spark/test_table_maintenance.py \
	spark/test_iceberg_snapshots.py)

quick: setup  ## tests of all packages but the simulator's and what takes long; a client and a command on a real cluster: three to four minutes
	@$(PYTEST) -q --short --hypothesis-profile=seconds -n 6 --dist loadscope tests/packages tests/scenes $(OF_ALL) \
		tests/live/test_client.py tests/live/test_broker_command.py $(ARGS)

COVERED := tests/packages tests/scenes --ignore tests/packages/simulator --ignore tests/packages/package

coverage: setup  ## lines and branches of each package that its tests run; no quota (COVERED=tests/packages/quorum)
	$(PY) -m coverage erase
	$(PY) -m coverage run -m pytest -q --hypothesis-profile=seconds -n 2 --dist loadscope $(COVERED) $(ARGS)
	$(PY) -m tests.coverage_table

interchange: setup jars  ## clusters of Apache Kafka's and our nodes together, each killed (about half an hour)
	MOLDAU_INTERCHANGE=1 $(PYTEST) -q tests/live/test_mixed_kraft.py tests/live/test_mixed_zookeeper.py \
		tests/live/test_mixed_exactly_once.py tests/live/test_mixed_voters.py tests/live/test_mixed_administration.py \
		tests/live/test_adopt_zookeeper.py $(ARGS)
	$(PY) -m tests.interchange

ecosystem: setup jars  ## Kafka's Streams, Connect and MirrorMaker 2 on Moldau, nodes killed meanwhile (3 minutes)
	sh bench/jars/get.sh ecosystem
	$(PYTEST) -q tests/live/test_ecosystem.py $(ARGS)

test-stores: setup  ## tables on a REST catalog of Iceberg and on HDFS, real servers, killed; Spark on YARN (100 MB of jars, 8 minutes)
	sh bench/jars/get.sh stores
	$(PYTEST) -q tests/live/test_iceberg_rest.py tests/live/test_hdfs.py tests/live/test_spark_anywhere.py $(ARGS)

test-classic: setup jars  ## Kafka's command line tools and ours, on all three systems (15 minutes)
	for system in moldau moldau-zookeeper kafka; do \
		MOLDAU_LIVE_SYSTEM=$$system $(PYTEST) -q tests/live/test_classic_*.py $(ARGS) || exit 1; done

test-zookeeper: setup jars  ## the live suite with its shared cluster in ZooKeeper mode
	MOLDAU_LIVE_SYSTEM=moldau-zookeeper $(PYTEST) $(ARGS) $(shell grep -lE 'bootstrap_servers: str|live_cluster' tests/live/test_*.py)

kills: setup  ## kill -9 of leader, controller and both, 20 times each under load (ARGS="--seed 7 --kills 5")
	$(PY) -m moldau.cluster.kills --mode $(PLANE) $(ARGS)

kills-spark: setup  ## a stream and pipelines while brokers, Spark's processes and its driver are killed (half an hour on a busy machine)
	MOLDAU_SPARK_KILLS=1 $(PYTEST) -q tests/live/test_spark_all_kills.py \
		tests/live/test_pipeline_all_kills.py tests/live/test_pipeline_tutorial.py $(ARGS)

migration: setup  ## ZooKeeper to the quorum, back, there again and finished, under load (ARGS="--seed 7 --brief")
	$(PY) -m moldau.cluster.migration_drill $(ARGS)

chaos: setup  ## one scenario of real faults, by number (SCENARIO=all ARGS="--seed 7 --system kafka"; ARGS=--list)
	$(PY) -m moldau.cluster.chaos $(SCENARIO) --mode $(PLANE) $(ARGS)

suites: setup  ## other projects' client suites against clusters of ours (SUITES=/path/to/sources ARGS="--only kgo")
	$(PY) -m tests.suites '$(SUITES)' $(ARGS)

sim: setup  ## simulate 2,000 seeds of the machines and 200 of whole clusters (ARGS="--first 9000 --nodes 0")
	$(PY) -m moldau.simulator.campaign $(ARGS)

fuzz: setup  ## random frames, batches, settings and damaged files on real nodes for 30 minutes (ARGS="--minutes 5 --seed 7")
	$(PY) -m tests.fuzz $(ARGS)

mutants: setup  ## hunt the known mistakes: which law catches each, after how many seeds (ARGS="--only KAFKA-7128"; ARGS=--laws)
	$(PY) -m moldau.simulator.mutants.table $(ARGS)

zoo: mutants  ## mutants, under its former name

bench: setup jars  ## Moldau against Apache Kafka on this machine
	$(PY) -m bench.run

bench-controller: setup jars  ## the controller against Apache Kafka's: create, kill, fail over, roll
	$(PY) -m bench.controller

bench-scale: setup jars  ## what 1,000, 10,000 and 100,000 partitions cost
	$(PY) -m bench.scale

parity: setup jars  ## Spark's own Kafka connector beside format("moldau"), in an environment of its own (about 1 GB)
	@sh scripts/parity.sh
	$(PYTEST) -q tests/live/test_spark_parity.py $(ARGS)

bench-spark: setup  ## both connectors' rows a second, on one Spark; what a batch costs a table (ARGS="--system kafka --only source")
	@sh scripts/parity.sh
	$(PY) -m bench.spark $(ARGS)

wheels: setup  ## both distributions, in dist: moldau, and moldau-simulator of the same source
	@rm -rf build simulator/build  # setuptools would take what an earlier build left there
	$(PY) -m pip wheel -q --no-deps -w dist . ./simulator

docs: setup  ## generate the reference pages
	$(PY) -m docs.generate

clean:  ## remove what make made, but no data
	rm -rf $(VENV) .coverage* htmlcov .mypy_cache .ruff_cache .pytest_cache .hypothesis build simulator/build
