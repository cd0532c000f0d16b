"""What classic tools do when nobody reads what they say: all that they were asked for, and the same exit status.

As Java's, whose PrintStream keeps a failure to itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest
from foreign import create_topic
from test_state_change_merger import MERGER
from test_storage_files import write_log

from moldau.admin.classic.registry import CLASSES, SCRIPTS
from moldau.client.reading import LATEST
from moldau.client.sync import Cluster
from moldau.model import TopicPartition
from moldau.storage import LogConfig
from moldau.wire.batch import build

MOLDAU = str(Path(sys.prefix) / "bin" / "moldau")
TOOLS = {
    "kafka-topics.sh": "--bootstrap-server {b} --describe",
    "kafka-configs.sh": "--bootstrap-server {b} --describe --entity-type topics",
    "kafka-reassign-partitions.sh": "--bootstrap-server {b} --list",
    "kafka-broker-api-versions.sh": "--bootstrap-server {b}",
    "kafka-get-offsets.sh": "--bootstrap-server {b}",
    "kafka-leader-election.sh": "--bootstrap-server {b} --election-type preferred --topic unheard --partition 0",
    "kafka-preferred-replica-election.sh": "--bootstrap-server {b}",
    "kafka-delete-records.sh": "--bootstrap-server {b} --offset-json-file {json}/none.json",
    "kafka-log-dirs.sh": "--bootstrap-server {b} --describe",
    "kafka-dump-log.sh": "--files {log} --print-data-log",
    "kafka-replica-verification.sh": "--version",
    "kafka-consumer-groups.sh": "--bootstrap-server {b} --list --state",
    "kafka-metadata-quorum.sh": "--bootstrap-server {b} describe --status",
    "kafka-features.sh": "--bootstrap-server {b} version-mapping",  # ZooKeeper mode has no features to describe
    "kafka-cluster.sh": "cluster-id --bootstrap-server {b}",
    "kafka-storage.sh": "feature-dependencies --feature metadata.version=20",
    "kafka-consumer-perf-test.sh": "--bootstrap-server {b} --topic unheard --num-records 100 --group {g}",
    "kafka-producer-perf-test.sh": "--bootstrap-server {b} --topic unheard --num-records 100 --record-size 9 "
    "--throughput -1",
    "kafka-verifiable-producer.sh": "--bootstrap-server {b} --topic counted --max-messages 3000",
    "kafka-verifiable-consumer.sh": "--bootstrap-server {b} --topic unheard --group-id {g} --max-messages 20 --verbose",
    "kafka-console-producer.sh": "--bootstrap-server {b} --topic unheard --property parse.key=false",
    "kafka-console-consumer.sh": "--bootstrap-server {b} --topic unheard --from-beginning --max-messages 20 "
    "--property print.key=true",
    "kafka-run-class.sh": MERGER + " --logs {changes}",
}
"""A line of each tool that says something on standard output. (Verification of replicas goes on until it is ended.)"""
assert TOOLS.keys() == {*SCRIPTS, "kafka-run-class.sh"}
assert {*SCRIPTS.values(), "state_change_log_merger"} == {*CLASSES.values()}


@pytest.fixture(scope="module")
def names(bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What lines name: a cluster with a topic, and files."""
    folder = tmp_path_factory.mktemp("unheard")
    write_log(folder, LogConfig())
    (folder / "none.json").write_text('{"version": 1, "partitions": []}')
    change = "TRACE Broker 1 received LeaderAndIsr request for partition [foo,0] (state.change.logger)"
    (folder / "state-change.log").write_text(f"[2014-02-11 10:00:00,000] {change}\n")
    for topic in ("unheard", "counted"):
        create_topic(bootstrap_servers, topic, 1, 2)
    with Cluster(bootstrap_servers) as cluster:
        records = [(1_700_000_000_000 + n, b"k%d" % n, b"value %d" % n, ()) for n in range(200)]
        cluster.produce(TopicPartition("unheard", 0), build(records))
    return {
        "b": bootstrap_servers,
        "json": str(folder),
        "log": str(next(folder.glob("t-0/*.log"))),
        "changes": str(folder / "state-change.log"),
    }


def status(script: str, names: dict[str, str], group: str, out: IO[bytes], err: IO[bytes] | int) -> tuple[int, str]:
    """How a tool ends, and what it says on standard error, with its standard output there."""
    words = [MOLDAU, script, *TOOLS[script].format(**names, g=group).split()]
    done = subprocess.run(words, input=b"a line\n", stdout=out, stderr=err, check=False, timeout=120)
    return done.returncode, (done.stderr or b"").decode()


@pytest.mark.parametrize("script", TOOLS)
def test_a_tool_that_nobody_listens_to_ends_as_one_that_is_heard(
    names: dict[str, str], script: str, tmp_path: Path
) -> None:
    with open(tmp_path / "said", "wb") as file:
        heard, said = status(script, names, "heard", file, subprocess.PIPE)
    assert (tmp_path / "said").read_bytes() or said  # ZooKeeper mode has no quorum to tell of
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as nobody:
        unheard, said = status(script, names, "unheard", nobody, subprocess.PIPE)
        assert unheard == heard, said
        assert "Traceback" not in said
        assert "Broken pipe" not in said
        assert status(script, names, "unheard-too", nobody, nobody)[0] == heard


def test_all_is_sent_although_nobody_is_told(bootstrap_servers: str, names: dict[str, str]) -> None:
    create_topic(bootstrap_servers, "all-of-it", 1, 2)
    line = TOOLS["kafka-verifiable-producer.sh"].format(**names).replace("counted", "all-of-it")
    shell = f"{MOLDAU} kafka-verifiable-producer.sh {line} | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, len(done.stdout.splitlines()), done.stderr) == (0, 1, "")
    at = TopicPartition("all-of-it", 0)
    with Cluster(bootstrap_servers) as cluster:
        assert cluster.offsets({at: LATEST})[at].offset == 3000


def test_an_answer_that_a_full_disk_has_not_taken_is_told_when_the_tool_has_ended(bootstrap_servers: str) -> None:
    create_topic(bootstrap_servers, "changed", 1, 2)
    words = f"kafka-topics.sh --bootstrap-server {bootstrap_servers} --delete --topic changed".split()
    with open("/dev/full", "wb") as full:
        done = subprocess.run([MOLDAU, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")  # it says nothing
    words = f"kafka-topics.sh --bootstrap-server {bootstrap_servers} --create --topic made".split()
    with open("/dev/full", "wb") as full:
        done = subprocess.run([MOLDAU, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "moldau: standard output: No space left on device\n")
    with Cluster(bootstrap_servers) as cluster:
        assert "made" in cluster.topics(["made"])
