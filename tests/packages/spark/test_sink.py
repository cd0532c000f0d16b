"""The sink turns rows into idempotent batches, in order, marked, and refuses what cannot be a record."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from moldau.client.partitioner import murmur2, partition_of
from moldau.client.view import Partition, Topic
from moldau.client.writing import BatchOutcome, Sent
from moldau.model import Code, TopicPartition
from moldau.spark import encode, produce
from moldau.spark.given import OptionError
from moldau.spark.produce import MARK, ProducerPool, SinkError, write_task
from moldau.spark.sink import check_columns
from moldau.spark.sink_options import ROUND_ROBIN, SinkOptions, parse
from moldau.spark.source import MoldauSource
from moldau.wire.batch import BatchHeader, Record, read_header, records

BASE = {"kafka.bootstrap.servers": "memory:1", "topic": "t"}


class Request(Sent):
    """A request whose answer is there already."""

    def __init__(self, outcome: dict[TopicPartition, BatchOutcome]) -> None:
        super().__init__(outcome, None)
        self.outcome = outcome


class Out:
    """A cluster that keeps what is produced; topics t and u have three partitions. ``codes`` are its next answers."""

    def __init__(self, *codes: Code, partitions: int = 3) -> None:
        self.batches: list[tuple[TopicPartition, BatchHeader, list[Record]]] = []
        self.codes, self.closed, self.partitions = list(codes), False, partitions
        self.ids = self.asked = self.slow = 0
        self.under_way: dict[TopicPartition, int] = {}
        self.most_under_way = 0

    def topics(self, names: Sequence[str]) -> dict[str, Topic]:
        self.asked += 1
        parts = {n: Partition(n, 1, 0, [1], [1], []) for n in range(self.partitions)}
        return {name: Topic(name, bytes(16), parts) for name in names if name in ("t", "u")}

    def producer_id(self) -> tuple[int, int]:
        self.ids += 1
        return 76 + self.ids, 0

    def _take(self, target: TopicPartition, data: bytes) -> BatchOutcome:
        code = self.codes.pop(0) if self.codes else Code.NONE
        if code is Code.NONE:
            self.batches.append((target, read_header(data), list(records(data))))
        return BatchOutcome(code, 0)

    def begin_produce(self, parts: Mapping[TopicPartition, bytes], *, acks: int, timeout_ms: int) -> list[Sent]:
        for target in parts:
            self.under_way[target] = self.under_way.get(target, 0) + 1
            assert self.under_way[target] == 1, "one batch of a partition at a time"
        self.most_under_way = max(self.most_under_way, sum(self.under_way.values()))
        return [Request({target: self._take(target, data)}) for target, data in parts.items()]

    def ready(self, sent: Collection[Sent]) -> list[Sent]:
        return []

    def finish_produce(self, sent: Sent) -> dict[TopicPartition, BatchOutcome]:
        for target in sent.targets:
            self.under_way[target] -= 1
        assert isinstance(sent, Request)
        return sent.outcome

    def produce(self, target: TopicPartition, data: bytes, *, acks: int, timeout_ms: int) -> BatchOutcome:
        self.slow += 1
        return self._take(target, data)

    def close(self) -> None:
        self.closed = True

    def seen(self) -> dict[int, list[Record]]:
        found: dict[int, list[Record]] = {}
        for target, _, batch in self.batches:
            found.setdefault(target.partition, []).extend(batch)
        return found


def kafka(**settings: str) -> dict[str, Any]:
    """Options of the Java producer, whose names no Python argument can have."""
    return {f"kafka.{name.replace('_', '.')}": value for name, value in settings.items()}


def write(out: Out, columns: dict[str, list], mark: str = "", pool: ProducerPool | None = None, **options: str) -> int:
    def rows() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict(columns)

    keep = pool if pool is not None else ProducerPool(most=0)
    return write_task(parse({**BASE, **options}), rows(), mark, open_out=lambda _: out, pool=keep)


def test_keys_go_where_other_clients_send_them_and_order_is_kept():
    out, keys = Out(), [f"k{n % 10}" for n in range(100)]
    assert write(out, {"key": keys, "value": [b"%d" % n for n in range(100)]}) == 100
    for partition, found in out.seen().items():
        assert all(each.key is not None and partition_of(each.key, 3) == partition for each in found)
        numbers = [int(each.value or b"") for each in found]
        assert numbers == sorted(numbers)
    assert sum(map(len, out.seen().values())) == 100
    assert out.closed


def test_sequences_go_on_from_batch_to_batch_under_one_producer_id():
    out = Out()
    write(out, {"value": [bytes(100_000)] * 20, "partition": pa.array([1] * 20, pa.int32())})
    heads = [head for target, head, _ in out.batches if target.partition == 1]
    assert len(heads) > 2
    assert {head.producer_id for head in heads} == {77}
    expected = 0
    for head in heads:
        assert head.base_sequence == expected
        expected += head.count


def test_rows_name_topic_partition_headers_and_null_values():
    out = Out()
    headers = pa.array(
        [[("a", b"1"), ("b", None)], None], pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    )
    columns = {"topic": ["u", "t"], "partition": pa.array([2, 0], pa.int32()), "value": ["x", None], "headers": headers}

    def rows() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict(columns)

    write_task(SinkOptions(parse(BASE).kafka, None), rows(), "", open_out=lambda _: out, pool=ProducerPool())
    found = {str(target): [(each.value, each.headers) for each in batch] for target, _, batch in out.batches}
    assert found == {"u-2": [(b"x", [("a", b"1"), ("b", None)])], "t-0": [(None, [])]}


def test_a_streams_records_are_marked_with_their_place_in_the_query():
    out = Out()
    write(out, {"value": ["x", "y"], "partition": pa.array([0, 0], pa.int32())}, mark="q/5/2/")
    assert [each.headers for each in out.seen()[0]] == [[(MARK, b"q/5/2/0")], [(MARK, b"q/5/2/1")]]


def test_a_refused_batch_fails_the_task_with_topic_and_reason_and_closes():
    out = Out(Code.MESSAGE_TOO_LARGE)
    with pytest.raises(SinkError, match="t-1: MESSAGE_TOO_LARGE"):
        write(out, {"value": ["x"], "partition": pa.array([1], pa.int32())})
    assert out.closed
    with pytest.raises(SinkError, match="partition 3 of t, which has 3"):
        write(Out(), {"value": ["x"], "partition": pa.array([3], pa.int32())})


def test_a_topic_that_brokers_do_not_know_yet_is_waited_for_a_while(monkeypatch: pytest.MonkeyPatch):
    class Late(Out):
        def topics(self, names: Sequence[str]) -> dict[str, Topic]:
            found = super().topics(names)
            return found if self.asked > 2 else {}

    late = Late()
    assert write(late, {"value": ["x"]}) == 1
    assert late.asked == 3
    monkeypatch.setattr(produce, "NEW_TOPIC_S", 0.2)
    with pytest.raises(SinkError, match="topic nope is not in the cluster"):
        write(Out(), {"value": ["x"]}, topic="nope")


@pytest.mark.parametrize(
    ("ddl", "named"),
    [
        ([("key", "string")], "column value is missing"),
        ([("value", "integer")], "column value is 'int'"),
        ([("value", "string"), ("partition", "string")], "column partition is 'string'"),
        ([("value", "string"), ("headers", "string")], "column headers is 'string'"),
    ],
)
def test_columns_that_cannot_be_records_are_named(ddl, named):
    schema = StructType()
    for name, type in ddl:
        schema.add(name, type)
    with pytest.raises(OptionError, match=named):
        check_columns(schema, parse(BASE))


def test_options_of_the_sink_are_checked():
    value = StructType().add("value", "string")
    with pytest.raises(OptionError, match="option topic is missing"):
        check_columns(value, SinkOptions())
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers is 'here': 'here' is not an address"):
        parse({**BASE, "kafka.bootstrap.servers": "here"})
    with pytest.raises(OptionError, match=r"kafka.acks is '2'.*allowed are all"):
        parse({**BASE, "kafka.acks": "2"})
    with pytest.raises(OptionError, match=r"compression.type is 'rar'.*none, gzip"):
        parse({**BASE, "kafka.compression.type": "rar"})
    with pytest.raises(OptionError, match="kafka.key.serializer"):
        parse({**BASE, "kafka.key.serializer": "x"})
    with pytest.raises(OptionError, match="did you mean topic"):
        parse({**BASE, "topics": "x"})
    assert parse({**BASE, "checkpointlocation": "/x", "markbatches": "false"}).mark is False


def test_a_query_may_have_a_name():
    """Spark hands queryName over among the options of a sink, and pipelines that are declared always have one."""
    assert parse({**BASE, "queryName": "flights"}).topic == "t"
    source = MoldauSource({**BASE, "queryname": "flights"})
    assert source.streamWriter(StructType().add("value", "string"), False) is not None


def test_rows_without_key_do_not_all_go_to_the_first_partition():
    """A small batch stays together, but begins anywhere; a large one moves on with every full batch."""
    small = set()
    for _ in range(60):
        out = Out()
        write(out, {"value": ["x"] * 5})
        assert len(out.seen()) == 1
        small |= set(out.seen())
    assert small == {0, 1, 2}
    out = Out()
    write(out, {"value": [bytes(50_000)] * 60})
    assert set(out.seen()) == {0, 1, 2}


def test_a_worker_keeps_its_producer_id_and_its_connection_from_task_to_task():
    out, pool = Out(), ProducerPool()
    for _ in range(5):
        write(out, {"value": ["x", "y"], "partition": pa.array([1, 1], pa.int32())}, pool=pool)
    assert (out.ids, out.asked, out.closed) == (1, 1, False)
    assert [head.base_sequence for _, head, _ in out.batches] == [0, 2, 4, 6, 8]
    pool.close()
    assert out.closed


def test_a_producer_whose_task_failed_is_given_up():
    out, pool = Out(Code.MESSAGE_TOO_LARGE), ProducerPool()
    with pytest.raises(SinkError):
        write(out, {"value": ["x"]}, pool=pool)
    assert out.closed
    after = Out()
    write(after, {"value": ["x"]}, pool=pool)
    assert after.ids == 1


def test_a_broker_that_forgot_the_producer_gets_the_same_rows_under_a_new_id():
    out = Out(Code.UNKNOWN_PRODUCER_ID)
    write(out, {"value": ["x"], "partition": pa.array([0], pa.int32())})
    ((_, head, _),) = out.batches
    assert (head.producer_id, head.base_sequence, out.ids) == (78, 0, 2)


def test_a_batch_in_doubt_is_sent_again_with_its_own_sequence_and_a_double_is_success():
    out = Out(Code.NETWORK_EXCEPTION, Code.DUPLICATE_SEQUENCE_NUMBER)
    assert write(out, {"value": ["x"], "partition": pa.array([0], pa.int32())}) == 1
    assert (out.slow, out.ids) == (1, 1)
    with pytest.raises(SinkError, match=r"t-0: NETWORK_EXCEPTION.*may be in the log"):
        write(
            Out(Code.NETWORK_EXCEPTION), {"value": ["x"], "partition": pa.array([0], pa.int32())},
            **kafka(acks="1"),
        )  # fmt: skip


def test_batches_of_several_partitions_are_under_way_together_and_of_one_never():
    out = Out()
    write(out, {"value": [b"x" * 1000] * 3000, "partition": pa.array([0, 1, 2] * 1000, pa.int32())})
    assert out.most_under_way == 3
    for found in out.seen().values():
        assert len(found) == 1000


def test_columns_that_are_not_written_are_not_looked_at():
    out = Out()
    assert write(out, {"value": ["x"], "other": [object] and [1], "Key": ["k"]}) == 1
    assert next(iter(out.seen().values()))[0].key == b"k"


def test_every_setting_of_the_java_producer_is_applied_refused_or_named_as_without_effect():
    assert write(Out(), {"value": ["x"]}, **kafka(acks="0")) == 1
    out = Out()
    write(out, {"value": ["x"], "partition": pa.array([0], pa.int32())}, **kafka(enable_idempotence="false"))
    assert (out.ids, out.batches[0][1].producer_id) == (0, -1)
    out = Out()
    write(out, {"value": [b"x" * 100] * 100, "key": ["k"] * 100}, **kafka(batch_size="1000"))
    assert all(head.size <= 1000 for _, head, _ in out.batches)
    out = Out()
    write(out, {"value": ["x"] * 9, "key": ["k"] * 9}, **kafka(partitioner_class=ROUND_ROBIN))
    assert {number: len(found) for number, found in out.seen().items()} == {0: 3, 1: 3, 2: 3}
    with pytest.raises(SinkError, match=r"t-\d: a record of 2\d\d\d bytes is above kafka.max.request.size \(2000\)"):
        write(Out(), {"value": [b"x" * 2100]}, **kafka(max_request_size="2000"))
    (warning,) = parse({**BASE, "kafka.linger.ms": "5"}).warnings
    assert warning.startswith("option kafka.linger.ms has no effect on the sink: a batch leaves")
    for name, value, why in (
        ("transactional.id", "x", "runs no transactions"),
        ("sasl.mechanism", "PLAIN", "only PLAINTEXT"),
        ("ssl.truststore.location", "x", "only PLAINTEXT"),
        ("security.protocol", "SASL_SSL", "allowed are PLAINTEXT"),
        ("partitioner.class", "my.Partitioner", "Java classes do not run here"),
        ("interceptor.classes", "x", "Java classes"),
        ("max.requst.size", "1", "did you mean kafka.max.request.size"),
        ("delivery.timeout.ms", "10", "must not be below kafka.request.timeout.ms"),
        ("linger.ms", "x", "a whole number"),
    ):
        with pytest.raises(OptionError, match=why):
            parse({**BASE, f"kafka.{name}": value})
    with pytest.raises(OptionError, match="idempotent producer"):
        parse({**BASE, "kafka.enable.idempotence": "true", "kafka.acks": "1"})


def test_a_setting_that_bounds_nothing_here_says_so():
    (said,) = parse({"kafka.bootstrap.servers": "memory:1", "topic": "t", "kafka.max.block.ms": "5"}).warnings
    assert "kafka.max.block.ms has no effect" in said
    assert "delivery.timeout.ms" in said


def test_a_row_that_names_a_new_partition_is_written_once_the_topic_has_grown():
    out, pool = Out(partitions=1), ProducerPool()
    write(out, {"value": ["x"]}, pool=pool)
    out.partitions = 2
    write(out, {"value": ["x"], "partition": pa.array([1], pa.int32())}, pool=pool)
    assert set(out.seen()) == {0, 1}


def test_rows_can_be_marked_by_key_so_that_their_order_does_not_matter():
    out = Out()
    write(out, {"key": ["a", "b"], "value": ["1", "2"]}, mark="q/5/", markBy="key")
    marks = sorted(each.headers[0][1] or b"" for found in out.seen().values() for each in found)
    assert marks == [b"q/5/a", b"q/5/b"]
    with pytest.raises(SinkError, match="a row has no key"):
        write(Out(), {"key": [None], "value": ["1"]}, mark="q/5/", markBy="key")


FIELD = st.none() | st.binary(max_size=200)
HEADERS = st.none() | st.lists(st.tuples(st.text(max_size=5), FIELD), max_size=3)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(FIELD, FIELD, HEADERS), min_size=1, max_size=40),
    first=st.integers(0, 3),
    mark=st.booleans(),
)
def test_whatever_the_rows_the_records_are_what_they_say(rows, first, mark):
    """Against the reader of single records; sliced and unsliced columns."""
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    whole = pa.RecordBatch.from_pydict({
        "key": pa.array([row[0] for row in rows], pa.binary()),
        "value": pa.array([row[1] for row in rows], pa.binary()),
        "headers": pa.array([row[2] for row in rows], kind),
        "partition": pa.array([0] * len(rows), pa.int32()),
    })  # fmt: skip
    given_rows, out = whole.slice(first), Out()
    options = parse({**BASE, "kafka.batch.size": "700"})
    write_task(options, iter([given_rows]), "m/" if mark else "", open_out=lambda _: out, pool=ProducerPool(0))
    found = [(each.key, each.value, each.headers) for each in out.seen().get(0, [])]
    expected = []
    for number, (key, value, headers) in enumerate(rows[first:]):
        marks = [(MARK, b"m/%d" % number)] if mark else []
        expected.append((key, value, [*(headers or []), *marks]))
    assert json.dumps(repr(found)) == json.dumps(repr(expected))


@settings(max_examples=60, deadline=None)
@given(keys=st.lists(st.binary(max_size=40), min_size=1, max_size=30), first=st.integers(0, 3))
def test_keys_are_hashed_as_one_by_one(keys, first):
    column = pa.array(keys, pa.large_binary()).slice(first)
    assert encode.murmur2(column).tolist() == [murmur2(key) for key in keys[first:]]


def test_records_keep_the_time_of_their_column_when_asked_to():
    """Years apart in one batch, and now where there is none."""
    out = Out()
    year_us = 365 * 86_400_000_000
    times = [
        1_790_000_000_000_000,
        1_790_000_000_000_000 - 50 * year_us,
        None,
        1_999,
        -5 * year_us,
        8_000_000_000_000_000,
    ]
    columns = {"value": list("abcdef"), "timestamp": pa.array(times, pa.timestamp("us", "UTC"))}
    write(out, columns, keepTimestamp="true", topic="t")
    found = {each.value: each.timestamp for batch in out.seen().values() for each in batch}
    assert [found[value.encode()] for value in "abdef"] == [one // 1000 for one in times if one is not None]
    assert abs(found[b"c"] - time.time() * 1000) < 3_600_000
    other = Out()
    write(other, columns, topic="t")
    assert all(
        abs(each.timestamp - time.time() * 1000) < 3_600_000 for batch in other.seen().values() for each in batch
    )
