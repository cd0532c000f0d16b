"""kafka-replica-verification.sh beside Kafka 3.9.1's on one cluster: the same lines, times apart."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

import confluent_kafka
import pytest
from kafka_peer import ALL_JARS, java_command

from moldau import Cluster
from moldau.client.admin import NewTopic, create_topics

TOOL = "org.apache.kafka.tools.ReplicaVerificationTool"
OURS = [sys.executable, "-m", "moldau", "kafka-replica-verification.sh"]
TIME = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}: ")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(3, data=tmp_path_factory.mktemp("verification") / "cluster") as running:
        client = running.client()
        asked = NewTopic(name="orders", partitions=3, replication_factor=3)
        assert client.run(create_topics(client.client, [asked]))["orders"].code == 0
        producer = confluent_kafka.Producer({"bootstrap.servers": running.bootstrap_servers})
        for number in range(300):
            producer.produce("orders", b"v" * 100, partition=number % 3)
        assert producer.flush(60) == 0
        running.wait_until_in_sync()
        yield running


def lines(command: list[str], count: int) -> list[str]:
    """The first lines that a tool says, without their times; then it is ended."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        assert running.stdout is not None
        try:
            said = [running.stdout.readline() for _ in range(count)]
        finally:
            running.kill()
    assert all(TIME.match(line) for line in said), said
    return [TIME.sub("", line) for line in said]


def java() -> list[str]:
    return java_command(TOOL, (), jars=ALL_JARS / "tools-3.9.1")


def both(arguments: list[str], count: int) -> list[str]:
    theirs, ours = lines([*java(), *arguments], count), lines([*OURS, *arguments], count)
    if ours != theirs:  # a broker checks a batch that it is asked for again and again, and refuses one of the two
        theirs, ours = lines([*java(), *arguments], count), lines([*OURS, *arguments], count)
    assert ours == theirs
    return ours


def test_equal_replicas_have_no_lag(cluster: Cluster) -> None:
    arguments = ["--broker-list", cluster.bootstrap_servers, "--topics-include", "orders", "--time", "-2"]
    _, report = both([*arguments, "--report-interval-ms", "3000"], 2)
    assert re.fullmatch(r"max lag is 0 for partition orders-\d at offset 100 among 3 partitions\n", report)


def test_another_checksum_is_told(cluster: Cluster) -> None:
    follower = next(id for id in (1, 2, 3) if id != cluster.leader("orders", 1))
    (log,) = cluster.folder.glob(f"*{follower}*/**/orders-1/00000000000000000000.log")
    with log.open("r+b") as file:
        file.seek(17)
        file.write(b"\1\2\3\4")
    arguments = ["--broker-list", cluster.bootstrap_servers, "--topics-include", "orders", "--time", "-2"]
    said = both(arguments, 2)
    assert "partition orders-1 has unmatched checksum at offset" in said[1]


@pytest.mark.parametrize(
    "arguments",
    [[], ["--help"], ["--version"], ["--broker-list"], ["--broker-list", "x"], ["--time", "1"]],
    ids=lambda arguments: " ".join(arguments) or "nothing",
)
def test_what_is_refused(arguments: list[str]) -> None:
    theirs, ours = (
        subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, timeout=240)
        for command in (java(), OURS)
    )
    told = [line for line in theirs.stderr.splitlines() if not re.match(r"\t|\[main\] |SLF4J", line)]
    assert (ours.returncode, ours.stdout, ours.stderr.splitlines()) == (theirs.returncode, theirs.stdout, told)
