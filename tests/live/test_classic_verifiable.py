"""Moldau's producer performance test and verifiable clients say what Apache Kafka 4.3.1's do, on the same cluster."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import classic_cases
import pytest
from classic import Both, lines
from foreign import create_topic

from moldau.client.reading import LATEST
from moldau.client.sync import Cluster
from moldau.model import TopicPartition
from moldau.wire.batch import build

MOLDAU = str(Path(sys.prefix) / "bin" / "moldau")


def in_order(found: re.Match[str]) -> str:
    """An object of JSON with its fields by name: Kafka's tool has them as Java's reflection gives them, which is not
    the same in every process (``partition`` before ``topic`` was seen once)."""
    return "{" + ",".join(sorted(re.split(r',(?=")', found[0][1:-1]))) + "}"


NUMBERS: dict[str, str | Callable[[re.Match[str]], str]] = {
    r'\{"[^{}]*\}': in_order,
    r"(?m)^(\d+( steady state)? records sent), .*": r"\1, (numbers)",
    r'"timestamp":\d+': '"timestamp":(number)',
    r'"avg_throughput":[\d.E]+': '"avg_throughput":(number)',
    r'"offset":\d+': '"offset":(number)',
}


@pytest.mark.parametrize("name", ["PRODUCER_PERFORMANCE", "VERIFIABLE_PRODUCER"])
def test_tools_that_send(both: Both, bootstrap_servers: str, tmp_path: Path, name: str) -> None:
    create_topic(bootstrap_servers, "sent", 1, 2)
    (tmp_path / "payloads").write_text("\nfirst,one\n\nsecond\n")
    (tmp_path / "newline").write_text("\n")
    (tmp_path / "nothing").write_text("")
    for file, wait_ms in (("fast", 1_000), ("slow", 60_000)):
        (tmp_path / file).write_text(f"max.block.ms={wait_ms}\n")
        both.names[file] = str(tmp_path / file)
    both.masks |= NUMBERS
    both.run(lines(getattr(classic_cases, name)))
    both.check()


def test_the_verifiable_consumer(both: Both, bootstrap_servers: str, tmp_path: Path) -> None:
    create_topic(bootstrap_servers, "witnessed", 1, 2, retention_ms="-1")
    with Cluster(bootstrap_servers) as cluster:
        texts = [(1_700_000_000_000 + n, b"k%d" % n if n else None, "wört %d".encode() % n, ()) for n in range(10)]
        cluster.produce(TopicPartition("witnessed", 0), build(texts))
    (tmp_path / "quick").write_text("heartbeat.interval.ms=1000\n")
    both.names["quick"] = str(tmp_path / "quick")
    both.masks |= {pattern: shown for pattern, shown in NUMBERS.items() if "offset" not in pattern}
    both.run(lines(classic_cases.VERIFIABLE_CONSUMER))
    both.check()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_was_sent_is_told_of_before_a_signal_ends_it(bootstrap_servers: str, number: signal.Signals) -> None:
    topic = f"sent-until-{number.name.lower()}"
    create_topic(bootstrap_servers, topic, 2, 2)
    words = ["kafka-verifiable-producer.sh", "--bootstrap-server", bootstrap_servers, "--topic", topic]
    with subprocess.Popen([MOLDAU, *words, "--throughput", "200"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = [json.loads(process.stdout.readline()) for _ in range(20)]
        process.send_signal(number)
        told += [json.loads(line) for line in process.stdout]
        assert process.wait(120) == 128 + number
    assert [one["name"] for one in told[-2:]] == ["shutdown_complete", "tool_data"]
    written = [one for one in told if one["name"] == "producer_send_success"]
    assert (told[-1]["sent"], told[-1]["acked"]) == (len(written), len(written))
    assert sorted(int(one["value"]) for one in written) == list(range(len(written)))
    with Cluster(bootstrap_servers) as cluster:
        ends = cluster.offsets({TopicPartition(topic, place): LATEST for place in range(2)})
    assert sum(end.offset for end in ends.values()) == len(written)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_verifiable_consumer_leaves_its_group_before_a_signal_ends_it(
    bootstrap_servers: str, number: signal.Signals
) -> None:
    topic = f"read-until-{number.name.lower()}"
    create_topic(bootstrap_servers, topic, 1, 2)
    words = ["kafka-verifiable-consumer.sh", "--bootstrap-server", bootstrap_servers, "--topic", topic]
    with subprocess.Popen([MOLDAU, *words, "--group-id", topic], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = [json.loads(process.stdout.readline())["name"] for _ in range(2)]
        process.send_signal(number)
        told += [json.loads(line)["name"] for line in process.stdout]
        assert process.wait(120) == 128 + number
    left = ["shutdown_requested", "partitions_revoked", "shutdown_complete"]
    assert told == ["startup_complete", "partitions_assigned", *left]
