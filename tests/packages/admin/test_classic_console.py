"""What the console tools make of lines and of records' bytes, without a cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any  # doubles stand for a session and a consumer

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.admin.classic.console_producer import _Sender
from moldau.admin.classic.java import JavaError
from moldau.admin.classic.java_values import DESERIALIZERS, java_decimal
from moldau.admin.classic.line_reader import Line, LineReader, lines_of_stdin
from moldau.admin.classic.record_reader import Reader
from moldau.client.client import Unreachable
from moldau.client.consumer import ConsumerOptions
from moldau.client.feeding import FeedOptions
from moldau.client.sockets import drive
from moldau.model import Code, TopicPartition

JAVA = "org.apache.kafka.common.serialization."


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0.0, "0.0"), (-0.0, "-0.0"), (1.0, "1.0"), (0.1, "0.1"), (0.001, "0.001"), (0.00012, "1.2E-4"),
        (9999999.0, "9999999.0"), (1e7, "1.0E7"), (123456789.5, "1.234567895E8"), (5e-324, "4.9E-324"),
        (float("inf"), "Infinity"), (float("nan"), "NaN"),
    ],
)  # fmt: skip
def test_a_decimal_number_is_shown_as_java_shows_it(number: float, shown: str) -> None:
    assert java_decimal(number) == shown


def test_values_are_read_as_their_deserializers_read_them() -> None:
    assert DESERIALIZERS[f"{JAVA}IntegerDeserializer"](b"\0\0\0\7") == "7"
    assert DESERIALIZERS[f"{JAVA}BooleanDeserializer"](b"\1") == "true"
    assert DESERIALIZERS[f"{JAVA}BytesDeserializer"](b"a\0") == "a\\x00"
    with pytest.raises(ValueError, match="Size of data received is not 8"):
        DESERIALIZERS[f"{JAVA}LongDeserializer"](b"\0")


def test_a_line_has_a_key_and_headers_where_they_are_asked_for() -> None:
    reader = LineReader({"parse.key": "true", "parse.headers": "true", "null.marker": "-"})
    assert reader.read("a:1,b:-\tkey\tthe value") == Line(b"key", b"the value", (("a", b"1"), ("b", None)))
    assert reader.read("-\t-\t-") == Line(None, None)
    with pytest.raises(JavaError, match="No key separator found on line number 3: 'a:1\tkey'"):
        reader.read("a:1\tkey")


def test_marks_that_would_be_mistaken_for_each_other_are_refused() -> None:
    with pytest.raises(JavaError, match=r"headers.separator and headers.key.separator may not be equal"):
        LineReader({"headers.separator": ":"})


@contextmanager
def stdin(data: bytes) -> Iterator[None]:
    """Standard input that holds these bytes."""
    source, end = os.pipe()
    os.write(end, data)
    os.close(end)
    before = sys.stdin
    with open(source) as sys.stdin:
        try:
            yield
        finally:
            sys.stdin = before


@given(st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=9), max_size=9))
def test_lines_are_those_that_were_written(texts: list[str]) -> None:
    with stdin("".join(f"{text}\n" for text in texts).encode()):
        assert list(lines_of_stdin(60)) == texts


def test_the_ends_of_lines_are_those_of_all_systems() -> None:
    with stdin(b"a\r\nb\rc\n\nd"):
        assert list(lines_of_stdin(60)) == ["a", "b", "c", "", "d"]


class Sent:
    """A session of which nothing is asked."""

    class cluster:
        client = None


def sender(**properties: str) -> Any:
    unused: Any = Sent
    return _Sender(unused, "one", FeedOptions(), {name.replace("_", "."): one for name, one in properties.items()})


def test_a_record_of_a_transaction_is_refused_as_kafkas_tool_refuses_it() -> None:
    """It was written without a transaction, and the tool ended well."""
    with pytest.raises(JavaError, match="Cannot add partition one-0 to transaction before completing a call to init"):
        sender(transactional_id="foo").add(Line(None, b"x"), sync=False)


def test_a_record_that_is_larger_than_a_request_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    small, what = (
        sender(max_request_size="10"),
        "The message is 86 bytes when serialized which is larger than 10, which",
    )
    with pytest.raises(JavaError, match="ExecutionException") as refused:
        small.add(Line(None, b"x"), sync=True)
    assert what in refused.value.trace
    small.add(Line(None, b"x"), sync=False)
    assert what in capsys.readouterr().err
    assert small.age_s == 0, "nothing is to be sent"
    sender(max_request_size="96").add(Line(b"k", b"x", (("a", b"bc"), ("d", None))), sync=True)
    with pytest.raises(JavaError):
        sender(max_request_size="93").add(Line(b"k", b"x", (("a", b"bc"), ("d", None))), sync=True)


class Group:
    """A consumer whose first rebalance ends in so many seconds of its clock, with a record to come."""

    options = ConsumerOptions()

    def __init__(self, rebalance_s: float, clock: list[float]) -> None:
        self.assignment: frozenset[TopicPartition] = frozenset()
        self.rebalance_s, self.clock = rebalance_s, clock

    async def poll(self, wait_ms: float, *, join_ms: int | None) -> list[SimpleNamespace]:
        if self.assignment:
            return [SimpleNamespace(fetched=SimpleNamespace(code=Code.NONE))]
        assert join_ms is not None
        before = self.clock[0]
        self.clock[0] += min(join_ms / 1000, self.rebalance_s - before)
        if self.clock[0] < self.rebalance_s:
            raise Unreachable("no rebalance in time")
        self.assignment = frozenset({TopicPartition("t", 0)})
        return []


@pytest.mark.parametrize(("rebalance_s", "comes"), [(2.0, True), (3.0, True), (5.5, False)])
def test_a_first_rebalance_may_last_longer_than_the_time_without_records(
    monkeypatch: pytest.MonkeyPatch, rebalance_s: float, comes: bool
) -> None:
    """With --timeout-ms 2500 a group printed nothing and ended well: its first rebalance takes 3 s."""
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    monkeypatch.setattr("moldau.admin.classic.record_reader.time.monotonic", lambda: clock[0])
    monkeypatch.setattr("moldau.admin.classic.record_reader.time.sleep", sleep)
    reader: Any = Reader.__new__(Reader)
    reader._ready, reader._look_at, reader.consumer = True, 99.0, Group(rebalance_s, clock)
    reader.wish, reader.cluster = SimpleNamespace(timeout_ms=2500, partition=None), SimpleNamespace(run=drive)
    reader._look_again = lambda: None
    monkeypatch.setattr(Reader, "_records", lambda _, chunks: iter(chunks))
    found = reader.receive()
    assert (found is not None) == comes
