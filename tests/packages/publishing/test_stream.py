"""Every line of a node's log once and in order in the topic, whatever is rotated, cut off, refused or killed when."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.model import Code
from moldau.publishing import following
from moldau.publishing.following import LINES_MAX, NAME, READ_BYTES
from moldau.publishing.records import BEGINS, GOES_ON, LINE_BYTES_MAX, LOST
from moldau.publishing.stream import KEEP_MS, RENEW_MS, Away, NotTaken, StepResult, Stream
from moldau.wire import batch
from tests.packages.publishing.doubles import Killed, MemoryTopic, Node

NOW_MS = 1_795_790_000_000


class Machine:
    """A node, a topic, and publishers that are killed and follow one another."""

    def __init__(self, folder: Path, **options: int) -> None:
        self.folder = folder
        self.node = Node(folder, **options)
        self.topic = MemoryTopic()
        self.now_ms = NOW_MS
        self.said: list[str] = []
        self.streams = [self.new(), self.new()]

    def new(self) -> Stream:
        return Stream(1, str(self.folder), self.topic, now_ms=lambda: self.now_ms, say=self.said.append)

    def killed(self, at: int) -> None:
        self.streams[at].close()
        self.streams[at] = self.new()

    def steps(self, at: int = 0, count: int = 1) -> None:
        for _ in range(count):
            try:
                self.streams[at].step()
            except Killed:
                self.killed(at)
            except Away:
                pass

    def finish(self, at: int = 0) -> None:
        """Until nothing is left to do."""
        self.topic.fate = "written"
        for _ in range(10_000):
            try:
                if self.streams[at].step() is StepResult.IDLE:
                    return
            except Away:
                self.topic.arrive()
                self.topic.commit()
        raise AssertionError("there is no end of it")

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for one in self.streams:
            one.close()
        self.node.close()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with Machine(tmp_path / "logs") as found:
        yield found


DOES: dict[str, Callable[[Machine], object]] = {
    "write": lambda one: one.node.write(),
    "write many": lambda one: one.node.write(7),
    "node killed": lambda one: one.node.killed(),
    "node starts again": lambda one: one.node.start_again(),
    "step": lambda one: one.steps(),
    "steps": lambda one: one.steps(count=6),
    "other steps": lambda one: one.steps(1, count=4),
    "publisher killed": lambda one: one.killed(0),
    "arrive": lambda one: one.topic.arrive(),
    "commit": lambda one: one.topic.commit(),
    **{
        fate: (lambda one, fate=fate: setattr(one.topic, "fate", fate))  # type: ignore[misc]
        for fate in ("late", "lost", "unanswered", "killed")
    },
}


@settings(deadline=None)
@given(st.lists(st.sampled_from(sorted(DOES)), max_size=60))
def test_every_line_is_there_once_and_in_order_whatever_happens(does: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder, Machine(Path(folder) / "logs") as machine:
        for one in does:
            DOES[one](machine)
        machine.node.write()
        machine.topic.arrive()
        machine.finish()
        machine.finish(1)
        assert lines(machine) == machine.node.written
        assert set(machine.topic.words(1)) <= {BEGINS}


ROTATED_BY_OTHERS = {
    **{name: DOES[name] for name in ("write", "node starts again", "step", "steps", "publisher killed", "late")},
    "moved": lambda one: one.node.rotated_by_others(),
    "packed": lambda one: one.node.rotated_by_others(packed=True),
    "copied and cut": lambda one: one.node.copied_and_cut(),
}


@settings(deadline=None)
@given(st.lists(st.sampled_from(sorted(ROTATED_BY_OTHERS)), max_size=40))
def test_every_line_is_there_once_and_in_order_where_others_rotate_the_files(does: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder, Machine(Path(folder) / "logs", max_bytes=1 << 20) as machine:
        for one in does:
            ROTATED_BY_OTHERS[one](machine)
        machine.node.write()
        machine.topic.arrive()
        machine.finish()
        assert lines(machine) == machine.node.written
        assert set(machine.topic.words(1)) <= {BEGINS}


def lines(machine: Machine) -> list[bytes]:
    """Of each record the line; of one that is no entry what is told of it."""
    found = []
    for value in machine.topic.values(1):
        fact = json.loads(value)
        found.append(fact["line"].encode() if fact.get("event") == "unreadable line" else value)
    return found


# ---- where something is lost, or refused


def test_files_that_went_before_they_were_read_are_told_in_the_topic(machine: Machine) -> None:
    machine.node.max_files = 3
    machine.node.start_again()
    machine.node.write(2)
    machine.finish()
    machine.killed(0)
    for _ in range(30):
        machine.node.write()
    machine.finish()
    assert machine.topic.words(1) == [BEGINS, LOST]
    found = lines(machine)
    assert found[:2] == machine.node.written[:2]
    assert found[2:] == machine.node.written[-len(found[2:]) :], "all that the files still had, once"
    assert LOST in machine.said[0]
    machine.killed(0)
    machine.node.write()
    machine.finish()
    assert lines(machine)[-1] == machine.node.written[-1]
    assert machine.topic.words(1) == [BEGINS, LOST], "it is told once"


def test_a_file_that_lost_its_end_goes_on_where_it_was_cut(machine: Machine) -> None:
    """As when a machine goes down before the file was flushed: other lines stand then where published ones stood."""
    machine.node.write(3)
    machine.finish()
    file = machine.folder / NAME
    whole = file.read_bytes().splitlines(keepends=True)
    machine.killed(0)
    file.write_bytes(b"".join(whole[:1]))
    machine.node.write(2)
    machine.finish()
    assert lines(machine) == machine.node.written
    file.write_bytes(b"".join(whole[:2]))
    machine.killed(0)
    machine.node.write()
    machine.finish()
    assert lines(machine) == machine.node.written


def test_a_line_that_is_longer_than_any_entry_is_told_and_passed_over(machine: Machine) -> None:
    machine.node.write()
    with open(machine.folder / NAME, "ab") as file:
        file.write(b"x" * (2 * READ_BYTES))
    machine.finish()
    assert len(lines(machine)) == 1, "it may still become whole"
    with open(machine.folder / NAME, "ab") as file:
        file.write(b"\n")
    machine.node.write()
    machine.finish()
    values = machine.topic.values(1)
    assert json.loads(values[1]) == {
        "node": 1, "event": "unreadable line", "bytes": 2 * READ_BYTES + 1, "line": "x" * 1000,
    }  # fmt: skip
    assert values[2] == machine.node.written[-1]
    machine.killed(0)
    machine.finish()
    assert machine.topic.values(1) == values
    assert LINE_BYTES_MAX < READ_BYTES


def test_a_line_that_names_no_node_gets_it_and_what_is_no_json_is_told(machine: Machine) -> None:
    with open(machine.folder / NAME, "ab") as file:
        file.write(b'{"time_ms":5}\n{}\n[1]\n\xff\n\n' + b'{"a":' * 3000 + b"\n")
    machine.finish()
    values = machine.topic.values(1)
    assert values[:2] == [b'{"node":1,"time_ms":5}', b'{"node":1}']
    assert [json.loads(value)["line"][:5] for value in values[2:]] == ["[1]", "\\xff", "", '{"a":']


def test_a_folder_without_a_line_is_waited_for_and_nothing_is_claimed(machine: Machine) -> None:
    machine.finish()
    assert machine.topic.batches == []
    machine.node.write()
    machine.finish()
    assert lines(machine) == machine.node.written


def test_who_claims_late_does_not_take_over(machine: Machine) -> None:
    """The claim of a publisher that was killed arrives behind that of the next one, whose lines are under way."""
    topic = machine.topic
    machine.node.write(2)
    topic.fate = "late"
    machine.steps(count=2)
    claim, topic.late = topic.late, []
    machine.steps(count=3)  # the next one's claim is written, and found
    topic.fate = "late"
    machine.steps()
    lines_under_way, topic.late = topic.late, claim
    assert len(lines_under_way) == 1
    topic.arrive()
    topic.commit()
    machine.finish()
    topic.late = lines_under_way
    topic.arrive()
    assert lines(machine) == machine.node.written
    assert topic.words(1) == [BEGINS, BEGINS]


def test_who_claims_second_goes_on_as_the_first(machine: Machine) -> None:
    """A claim arrives between another publisher's look and its claim; both publishers are killed."""
    topic = machine.topic
    machine.node.write(2)
    topic.fate = "late"
    machine.steps(count=2)
    machine.steps()  # looks, and is about to claim
    topic.arrive()
    machine.steps(count=2)
    topic.fate = "late"
    machine.steps()
    assert len(topic.late) == 1, "its lines are under way"
    machine.finish()
    topic.arrive()
    assert lines(machine) == machine.node.written
    assert topic.words(1) == [BEGINS, BEGINS]


def test_a_file_that_is_moved_elsewhere_is_followed_by_the_next_and_not_by_older_ones(
    machine: Machine, tmp_path: Path
) -> None:
    for _ in range(12):
        machine.node.write()
    machine.finish()
    os.replace(machine.folder / NAME, tmp_path / "elsewhere")
    with open(tmp_path / "elsewhere", "ab") as file:
        file.write(b'{"node":1}\n')  # before the node has noticed
    machine.node.written.append(b'{"node":1}')
    machine.node.write()
    machine.finish()
    assert lines(machine) == machine.node.written
    assert machine.topic.words(1) == [BEGINS]


def test_what_a_killed_publisher_said_itself_is_not_taken_for_the_next_ones_line(machine: Machine) -> None:
    """Both have the same number and are one record: the broker takes the second for the first, sent again."""
    machine.node.write()
    machine.finish()
    machine.now_ms += KEEP_MS
    machine.topic.fate = "late"
    machine.steps()
    assert len(machine.topic.late) == 1
    machine.node.write()
    machine.steps()  # it looks where to go on
    machine.topic.arrive()
    machine.finish()
    assert lines(machine) == machine.node.written
    assert machine.topic.words(1) == [BEGINS, GOES_ON]


def test_a_stream_without_lines_keeps_its_place_in_the_topic(machine: Machine) -> None:
    machine.node.write()
    machine.finish()
    for _ in range(3):
        machine.now_ms += KEEP_MS
        machine.finish()
    machine.killed(0)
    machine.node.write()
    machine.finish()
    assert machine.topic.words(1) == [BEGINS, *[GOES_ON] * 3]
    assert lines(machine) == machine.node.written


def test_a_producer_that_brokers_refuse_for_ever_is_followed_by_another(machine: Machine) -> None:
    machine.node.write()
    machine.finish()
    machine.node.write()
    machine.topic.codes = [Code.OUT_OF_ORDER_SEQUENCE_NUMBER] * 5
    machine.steps(count=6)
    assert machine.topic.ids == 1, "what it cannot see yet is waited for"
    machine.now_ms += RENEW_MS
    machine.finish()
    assert lines(machine) == machine.node.written
    machine.topic.codes = [Code.UNKNOWN_PRODUCER_ID]
    machine.node.write()
    machine.finish()
    assert machine.topic.ids == 3
    assert lines(machine) == machine.node.written


def test_batches_that_are_too_large_are_halved_and_a_line_that_is_refused_is_named(machine: Machine) -> None:
    machine.node.write(2)
    machine.finish()
    machine.node.write(2)
    machine.node.write(2)
    machine.topic.codes = [Code.MESSAGE_TOO_LARGE]
    machine.finish()
    assert lines(machine) == machine.node.written
    machine.node.write()
    machine.topic.codes = [Code.TOPIC_AUTHORIZATION_FAILED]
    with pytest.raises(NotTaken, match="records of node 1: TOPIC_AUTHORIZATION_FAILED"):
        machine.streams[0].step()
    machine.finish()
    assert lines(machine) == machine.node.written


def test_a_topic_that_was_deleted_is_made_anew_and_filled_with_what_the_files_have(machine: Machine) -> None:
    machine.node.write(3)
    machine.finish()
    old, machine.topic.batches = machine.topic.batches, []
    machine.topic.commit()
    machine.topic.is_there = False
    machine.node.write()
    machine.finish()
    assert machine.topic.is_there
    assert lines(machine) == machine.node.written
    assert old


def test_no_more_than_a_part_of_the_files_is_in_memory(machine: Machine) -> None:
    machine.node.max_bytes = 1 << 30
    machine.node.start_again()
    for _ in range(20):
        machine.node.write(500)
    machine.finish()
    assert lines(machine) == machine.node.written
    sizes = [sum(len(one.value or b"") for one in batch.records(data)) for data in machine.topic.batches]
    assert len(sizes) > 3
    assert max(sizes) <= READ_BYTES


def test_what_was_searched_for_the_end_of_a_line_is_not_searched_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file with a gigabyte of zeros at its end was read four times a second."""
    machine.node.write()
    log = Path(machine.folder, NAME)
    with log.open("ab") as file:
        file.write(bytes(3 * READ_BYTES))
    machine.finish()
    read = 0

    def counted(file: IO[bytes], at: int, most: int) -> bytes:
        nonlocal read
        data = bytes_at(file, at, most)
        read += len(data)
        return data

    bytes_at = following._bytes_at
    monkeypatch.setattr(following, "_bytes_at", counted)
    machine.finish()
    assert read < 2 * READ_BYTES
    with log.open("ab") as file:
        file.write(b"\n")
    machine.finish()
    assert json.loads(machine.topic.values(1)[-1])["bytes"] == 3 * READ_BYTES + 1


def test_a_log_of_empty_lines_is_written_some_at_a_time(machine: Machine) -> None:
    """Two hundred thousand of them fit into what is read at once, and took half a gigabyte as records of one batch."""
    machine.node.write()
    with Path(machine.folder, NAME).open("ab") as file:
        file.write(b"\n" * (2 * LINES_MAX + 5))
    machine.finish()
    counts = [sum(1 for _ in batch.records(data)) for data in machine.topic.batches]
    assert max(counts) == LINES_MAX
    assert sum(counts) == 2 * LINES_MAX + 7, "with the claim"
