"""The sink turns rows into idempotent batches, in order, marked, and refuses what cannot be a record."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from moldau.client.partitioner import partition_of
from moldau.client.view import Partition, Topic
from moldau.client.writing import Written
from moldau.spark.given import OptionError
from moldau.spark.sink import MARK, SinkError, SinkOptions, check_columns, parse, write_task
from moldau.terms import Code, TopicPartition
from moldau.wire.batch import BatchHeader, Record, read_header, records

BASE = {"kafka.bootstrap.servers": "memory:1", "topic": "t"}


class Out:
    """A cluster that keeps what is produced; topic t has three partitions."""

    def __init__(self, code: Code = Code.NONE) -> None:
        self.batches: list[tuple[TopicPartition, BatchHeader, list[Record]]] = []
        self.code, self.closed = code, False

    def topics(self, names: list[str]) -> dict[str, Topic]:
        parts = {n: Partition(n, 1, 0, [1], [1], []) for n in range(3)}
        return {name: Topic(name, bytes(16), parts) for name in names if name in ("t", "u")}

    def producer_id(self) -> tuple[int, int]:
        return 77, 0

    def produce(self, target: TopicPartition, data: bytes, *, acks: int = -1) -> Written:
        assert acks == -1
        self.batches.append((target, read_header(data), list(records(data))))
        return Written(self.code, 0)

    def close(self) -> None:
        self.closed = True

    def seen(self) -> dict[int, list[Record]]:
        found: dict[int, list[Record]] = {}
        for target, _, batch in self.batches:
            found.setdefault(target.partition, []).extend(batch)
        return found


def write(out: Out, columns: dict[str, list], mark: str = "", **options: str) -> int:
    def rows() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict(columns)

    return write_task(parse({**BASE, **options}), rows(), out, mark).records


def test_keys_go_where_other_clients_send_them_and_order_is_kept():
    out, keys = Out(), [f"k{n % 10}" for n in range(100)]
    assert write(out, {"key": keys, "value": [b"%d" % n for n in range(100)]}) == 100
    for partition, found in out.seen().items():
        assert all(partition_of(each.key, 3) == partition for each in found)
        numbers = [int(each.value) for each in found]
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

    write_task(SinkOptions(parse(BASE).kafka, None), rows(), out, "")
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
    with pytest.raises(OptionError, match=r"kafka.acks is '1'.*only all"):
        parse({**BASE, "kafka.acks": "1"})
    with pytest.raises(OptionError, match=r"compression.type is 'rar'.*none, gzip"):
        parse({**BASE, "kafka.compression.type": "rar"})
    with pytest.raises(OptionError, match="kafka.key.serializer"):
        parse({**BASE, "kafka.key.serializer": "x"})
    with pytest.raises(OptionError, match="did you mean topic"):
        parse({**BASE, "topics": "x"})
    assert parse({**BASE, "checkpointlocation": "/x", "markbatches": "false"}).mark is False
