"""Logs that real brokers of Kafka 3.9.1 and 4.3.1 wrote at TRACE are merged without loss, and filtered exactly.

Recorded by tests/golden/record_state_changes.py, 2026-11-22.
"""

from __future__ import annotations

import gzip
import re
from collections import Counter
from pathlib import Path

import pytest

from moldau.clusterdata.state_changes.eras import parse
from moldau.clusterdata.state_changes.history import changes
from moldau.clusterdata.state_changes.merging import logs, merge, wanted
from moldau.clusterdata.state_changes.skew import skews
from moldau.clusterdata.state_changes.sources import LogSource
from moldau.model import TopicPartition

RECORDED = Path(__file__).resolve().parents[2] / "golden" / "state_changes"
LINES = {"kafka-3.9.1-quorum": 143, "kafka-3.9.1-zookeeper": 1124, "kafka-4.3.1": 156}
"""How many each run logged."""


@pytest.fixture(params=sorted(LINES))
def run(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def logged(run: str) -> list[bytes]:
    """Every line that the brokers of a run wrote."""
    files = sorted((RECORDED / run).rglob("*.gz"))
    assert len(files) == 3
    return [line for file in files for line in gzip.decompress(file.read_bytes()).splitlines()]


def merged(run: str, topic: str | None = None, *numbers: int) -> list[bytes]:
    keep = wanted(topic, numbers)
    sources = [LogSource(files, keep) for files in logs([str(RECORDED / run)])]
    return [line for entries in merge(sources) for entry in entries for line in entry.splitlines()]


def test_no_line_is_lost_or_made_up_and_each_log_keeps_its_order(run: str) -> None:
    lines = merged(run)
    assert len(lines) == LINES[run]
    assert Counter(lines) == Counter(logged(run))
    for file in (RECORDED / run).rglob("*.gz"):
        own = gzip.decompress(file.read_bytes()).splitlines()
        assert [line for line in lines if line in set(own)] == own, "each log in its order"
    seconds = [line[1:20] for line in lines]  # Kafka's threads write lines some milliseconds out of order
    assert seconds == sorted(seconds)


@pytest.mark.parametrize("topic", ["orders", "two.words-2"])
def test_a_topics_lines_are_those_that_name_it(run: str, topic: str) -> None:
    naming = [line for line in logged(run) if topic.encode() in line]
    assert naming
    assert Counter(merged(run, topic)) == Counter(naming)


def test_every_line_is_understood_as_far_as_its_partitions(run: str) -> None:
    named = re.compile(rb"(orders|two\.words-2)-(\d)|topicName='(orders|two\.words-2)', partitionIndex=(\d)")
    for line in logged(run):
        event = parse(line)
        assert event is not None
        assert event.node in (1, 2, 3)
        found = {(a or c).decode() + "-" + (b or d).decode() for a, b, c, d in named.findall(line)}
        assert found <= {f"{topic}-{number}" for topic, number in event.partitions}, line


def test_who_led_is_told_and_no_clock_of_one_machine_is_doubted(run: str) -> None:
    events = [event for line in merged(run) if (event := parse(line)) is not None]
    told = changes(events, TopicPartition("orders", 0))
    epochs = [change.leader_epoch for change in told]
    assert epochs == sorted(epochs)
    assert epochs[0] == 0
    assert all(change.leader in (1, 2, 3) for change in told)
    assert {one.verdict for one in skews(events)} <= {"no skew seen"}


def test_who_is_in_sync_is_read_off_every_line_that_says_it(run: str) -> None:
    """Kafka 3.5 and later write a broker's epoch beside each of them in a controller's lines."""
    said = re.compile(rb"isrWithBrokerEpoch=\w+\(((?:BrokerState\(.*?\)(?:, )?)+)\)")
    lines = [(line, found) for line in logged(run) if (found := said.search(line))]
    assert bool(lines) is run.endswith("zookeeper")
    for line, found in lines:
        event = parse(line)
        assert event is not None
        assert event.isr == tuple(int(id) for id in re.findall(rb"brokerId=(\d+)", found[1]))
