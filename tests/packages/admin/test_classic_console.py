"""What the console tools make of lines and of records' bytes, without a cluster."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any  # doubles stand for a session and a consumer
from unittest.mock import AsyncMock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.admin.classic.console_consumer_options import read_options
from moldau.admin.classic.console_formatters import Seen, group_metadata, offsets
from moldau.admin.classic.console_producer import _Sender
from moldau.admin.classic.dump_decoders import by_classes, metadata
from moldau.admin.classic.groups import java_split
from moldau.admin.classic.java import JavaError
from moldau.admin.classic.java_values import DESERIALIZERS, java_decimal, java_double
from moldau.admin.classic.line_reader import LineReader, RecordLine, lines_of_stdin
from moldau.admin.classic.record_reader import Reader
from moldau.client.client import Unreachable
from moldau.client.consumer import Chunk, ConsumerOptions
from moldau.client.feeding import FeedOptions
from moldau.client.partitioner import partition_of
from moldau.client.reading import Fetched
from moldau.client.view import Topic
from moldau.client.writing import BatchOutcome
from moldau.model import Code, TopicPartition
from moldau.wire.batch import Record, records
from moldau.wire.records.framing import pack_metadata
from moldau.wire.records.metadata import ClientQuotaRecord
from tests.packages.admin.doubles import ClientDouble, Driven
from tests.packages.doubles import UNUSED, TimeModule

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


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5d", 5.0),
        ("5f", 5.0),
        ("0x1p3", 8.0),
        ("0x.8P1d", 1.0),
        (" 1e3\t", 1000.0),
        ("-Infinity", -math.inf),
        (".5", 0.5),
    ],
)
def test_a_decimal_number_is_read_as_java_reads_it(text: str, number: float) -> None:
    """kafka-configs.sh refused a quota of 5d, which Java takes, and took 1_000, which it does not."""
    assert java_double(text) == number


@pytest.mark.parametrize("text", ["", "1_000", "inf", "nan", "infinity", "٣", "0x1", "1e", "d", "5dd", "."])
def test_what_java_takes_for_no_decimal_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no number"):
        java_double(text)


@pytest.mark.parametrize(("text", "words"), [("Empty,", ["Empty"]), (",", []), (",a", ["", "a"]), ("a, ", ["a", " "])])
def test_words_between_commas_are_those_of_java(text: str, words: list[str]) -> None:
    """`--state Empty,` was refused, where Kafka's tool lists the empty groups."""
    assert java_split(text) == words


def test_decoders_of_numbers_show_them_and_what_is_too_short_is_refused() -> None:
    """Kafka's IntegerDecoder was said not to exist."""
    api = "org.apache.kafka.tools.api."
    decode = by_classes(f"{api}LongDecoder", f"{api}IntegerDecoder")
    assert decode(Record(0, 0, bytes(7) + b"\5", b"\1\0\0\0\7", [])) == ("5", "16777216")
    with pytest.raises(JavaError) as refused:
        decode(Record(0, 0, None, b"\1", []))
    assert refused.value.trace == "java.nio.BufferUnderflowException\n"
    with pytest.raises(JavaError) as lost:
        by_classes("mine", f"{api}StringDecoder")
    assert "ClassNotFoundException: mine" in lost.value.trace


@pytest.mark.parametrize(("value", "shown"), [(1e8, "1.0E8"), (0.0001, "1.0E-4"), (5.0, "5.0"), (math.nan, '"NaN"')])
def test_a_quota_in_the_metadata_log_is_shown_as_java_shows_it(value: float, shown: str) -> None:
    entity = [ClientQuotaRecord.EntityData(entity_type="user", entity_name='x"value":1')]
    quota = ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=value, remove=False)
    text = metadata(Record(0, 0, None, pack_metadata(quota, 0), []))[1]
    assert text is not None
    assert f'"key":"producer_byte_rate","value":{shown},' in text
    assert '\\"value\\":1' in text


def test_values_are_read_as_their_deserializers_read_them() -> None:
    assert DESERIALIZERS[f"{JAVA}IntegerDeserializer"](b"\0\0\0\7") == "7"
    assert DESERIALIZERS[f"{JAVA}BooleanDeserializer"](b"\1") == "true"
    assert DESERIALIZERS[f"{JAVA}BytesDeserializer"](b"a\0") == "a\\x00"
    with pytest.raises(ValueError, match="Size of data received is not 8"):
        DESERIALIZERS[f"{JAVA}LongDeserializer"](b"\0")


def test_a_line_has_a_key_and_headers_where_they_are_asked_for() -> None:
    reader = LineReader({"parse.key": "true", "parse.headers": "true", "null.marker": "-"})
    assert reader.read("a:1,b:-\tkey\tthe value") == RecordLine(b"key", b"the value", (("a", b"1"), ("b", None)))
    assert reader.read("-\t-\t-") == RecordLine(None, None)
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
        sender(transactional_id="foo").add(RecordLine(None, b"x"), sync=False)


def test_a_record_that_is_larger_than_a_request_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    small, what = (
        sender(max_request_size="10"),
        "The message is 86 bytes when serialized which is larger than 10, which",
    )
    with pytest.raises(JavaError, match="ExecutionException") as refused:
        small.add(RecordLine(None, b"x"), sync=True)
    assert what in refused.value.trace
    small.add(RecordLine(None, b"x"), sync=False)
    assert what in capsys.readouterr().err
    assert small.age_s == 0, "nothing is to be sent"
    sender(max_request_size="96").add(RecordLine(b"k", b"x", (("a", b"bc"), ("d", None))), sync=True)
    with pytest.raises(JavaError):
        sender(max_request_size="93").add(RecordLine(b"k", b"x", (("a", b"bc"), ("d", None))), sync=True)


def test_of_lines_that_are_refused_those_are_named_and_all_others_are_sent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those for other partitions than a refused line were left out, and so was whatever came behind it in its own."""
    written: list[tuple[int, bytes | None]] = []

    async def known(*_: object) -> None:
        """The topic is there."""

    async def produce(_: object, target: TopicPartition, data: bytes, **__: object) -> BatchOutcome:
        if len(data) > 200:
            return BatchOutcome(Code.MESSAGE_TOO_LARGE)
        written.extend((target.partition, one.value) for one in records(data))
        return BatchOutcome(Code.NONE)

    monkeypatch.setattr("moldau.admin.classic.console_producer.await_topic", known)
    monkeypatch.setattr("moldau.client.feeding.produce", produce)
    monkeypatch.setattr("moldau.client.feeding.producer_id", AsyncMock(return_value=(7, 0)))
    console = sender()
    client = ClientDouble([1])
    client.view.topics["one"] = Topic("one", bytes(16), dict.fromkeys(range(2), UNUSED))
    monkeypatch.setattr(Sent, "cluster", Driven(client))
    console.feed.client = client
    lines = [(b"a", bytes(300)), (b"a", b"x"), (b"d", b"y"), (b"a", b"z")]
    assert partition_of(b"a", 2) < partition_of(b"d", 2)
    for key, value in lines:
        console.add(RecordLine(key, value), sync=False)
    console.flush()
    assert written == [(0, b"x"), (0, b"z"), (1, b"y")]
    (said,) = capsys.readouterr().err.splitlines()
    assert "key: 1 bytes, value: 300 bytes with error" in said
    console.add(RecordLine(b"a", bytes(300)), sync=True)
    with pytest.raises(JavaError, match="RecordTooLarge"):
        console.flush_or_fail()


class Group:
    """A consumer whose first rebalance ends in so many seconds of its clock, with a record to come."""

    options = ConsumerOptions()

    def __init__(self, rebalance_s: float, clock: TimeModule) -> None:
        self.assignment: frozenset[TopicPartition] = frozenset()
        self.rebalance_s, self.clock = rebalance_s, clock

    def position(self, partition: TopicPartition) -> int:
        return 0

    async def poll(self, wait_ms: float, *, join_ms: int | None) -> list[Chunk]:
        if self.assignment:
            return [Chunk(TopicPartition("t", 0), 0, Fetched(Code.NONE, memoryview(b""), 1))]
        assert join_ms is not None
        before = self.clock.now_s
        self.clock.now_s += min(join_ms / 1000, self.rebalance_s - before)
        if self.clock.now_s < self.rebalance_s:
            raise Unreachable("no rebalance in time")
        self.assignment = frozenset({TopicPartition("t", 0)})
        return []


@pytest.mark.parametrize(("rebalance_s", "comes"), [(2.0, True), (3.0, True), (5.5, False)])
def test_a_first_rebalance_may_last_longer_than_the_time_without_records(
    monkeypatch: pytest.MonkeyPatch, rebalance_s: float, comes: bool
) -> None:
    """With --timeout-ms 2500 a group printed nothing and ended well: its first rebalance takes 3 s."""
    clock = TimeModule()
    monkeypatch.setattr("moldau.admin.classic.record_reader.time", clock)
    reader: Any = Reader.__new__(Reader)
    reader._ready, reader._look_at, reader.consumer = True, 99.0, Group(rebalance_s, clock)
    reader.options, reader.cluster = (
        read_options(["--bootstrap-server", "h:1", "--topic", "t", "--timeout-ms", "2500"]),
        Driven(),
    )
    reader._look_again = lambda: None
    reader._left, reader._lasts = {}, {}
    monkeypatch.setattr(Reader, "_records", lambda _, chunks: iter(chunks))
    found = reader.receive()
    assert (found is not None) == comes


OFFSET_KEY = "0001 67 0001 74 00000003"
COMMIT = "0000000000000005 0001 6d 0000000000000007"
OF_COMMIT = '"data":{"group":"g","topic":"t","partition":3}}'
GROUP = "0003 0008 636f6e73756d6572 00000001 0001 72 0001 6c 0000000000000001 00000000"
OF_GROUP = (
    '{"version":3,"data":{"protocolType":"consumer","generation":1,"protocol":"r","leader":"l",'
    '"currentStateTimestamp":1,"members":[]}}'
)
UNREADABLE = "java.lang.RuntimeException: Could not read record at offset 42 due to: "


@pytest.mark.parametrize(
    ("key", "value", "of_offsets", "of_groups"),
    [
        (f"0000 {OFFSET_KEY}", f"0000 {COMMIT}",
         f'{{"key":{{"type":0,{OF_COMMIT},"value":{{"version":0,"data":{{"offset":5,"metadata":"m",'
         '"commitTimestamp":7}}}', ""),
        (f"0001 {OFFSET_KEY}", f"0001 {COMMIT} 0000000000000008",
         f'{{"key":{{"type":1,{OF_COMMIT},"value":{{"version":1,"data":{{"offset":5,"metadata":"m","commitTimestamp":7,'
         '"expireTimestamp":8}}}', ""),
        (f"0001 {OFFSET_KEY}", None, f'{{"key":{{"type":1,{OF_COMMIT},"value":null}}', ""),
        (f"0001 {OFFSET_KEY} ff", "0003 0000000000000005 00000001 0001 ff 0000000000000007 ff",
         f'{{"key":{{"type":1,{OF_COMMIT},"value":{{"version":3,"data":{{"offset":5,"leaderEpoch":1,"metadata":"\ufffd",'
         '"commitTimestamp":7}}}', ""),
        ("0002 0001 67", GROUP, "", f'{{"key":{{"type":2,"data":{{"group":"g"}}}},"value":{OF_GROUP}}}'),
        ("0002 0001 67", None, "", '{"key":{"type":2,"data":{"group":"g"}},"value":null}'),
        ("0063 0001 67", "0000", "", ""),
        (f"0000 {OFFSET_KEY}", f"0001 {COMMIT} 0000000000000008",
         f"{UNREADABLE}Found an unknown record version 1 for 0 type", None),
        (f"0001 {OFFSET_KEY}", "0009 00", f"{UNREADABLE}Found an unknown record version 9 for 1 type", None),
        (f"0001 {OFFSET_KEY}", "0003 00000000",
         f"{UNREADABLE}Could not read record with version 3 from value's buffer due to: null.", None),
        ("0001 0001 67 0001", "0003",
         f"{UNREADABLE}Could not read record with version 1 from key's buffer due to: "
         "Error reading byte array of 1 byte(s): only 0 byte(s) available.", None),
        (f"0001 {OFFSET_KEY}", "00", f"{UNREADABLE}Could not read version from value's buffer.", None),
        ("", "", f"{UNREADABLE}Could not read version from key's buffer.", None),
    ],
)  # fmt: skip
def test_records_of_groups_are_shown_as_the_classes_of_kafka_4_3_1_show_them(
    key: str, value: str | None, of_offsets: str, of_groups: str | None
) -> None:
    """A version that there is not was "unknown", and damaged records were told in words of our own: the console had
    decoders of its own, where those of kafka-dump-log.sh know. Of what cannot be read both formatters say the same."""
    record = Record(42, 0, bytes.fromhex(key), None if value is None else bytes.fromhex(value), [])
    for formatter, told in ((offsets, of_offsets), (group_metadata, of_offsets if of_groups is None else of_groups)):
        try:
            shown = formatter({})(Seen(TopicPartition("t", 0), record, None)).decode()
        except JavaError as error:
            shown = str(error)
        assert shown == told
