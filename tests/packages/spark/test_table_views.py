"""Topics are routed to tables of their own, and keyed tables hold the latest row of each key; no JVM is needed."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from moldau.spark.rows import unused_name
from moldau.spark.tables import BatchKey, LedgerError, TableError
from moldau.spark.tables.ledger import judge, next_entry
from moldau.spark.tables.routing import Tables, is_read, moved, narrowed, started
from moldau.spark.tables.upsert import Upserts


def place(**offsets: int) -> tuple[str, ...]:
    ids = {topic: topic.upper() for topic in offsets}
    return (json.dumps({**{topic: {"0": at} for topic, at in offsets.items()}, "#topicIds": ids}),)


def test_a_topics_table_follows_that_topics_offsets_alone():
    first = BatchKey("q", 0, place(a=0, b=0), place(a=5, b=0))
    second = BatchKey("q", 1, place(a=5, b=0), place(a=9, b=0, c=3))
    third = BatchKey("q", 2, place(a=9, b=0, c=3), place(a=9, b=4, c=3))
    assert [moved(each) for each in (first, second, third)] == [{"a"}, {"a", "c"}, {"b"}]
    line = next_entry("default", None, narrowed(first, "a"), 5)
    judge("a", line, narrowed(second, "a"))
    line = next_entry("default", line, narrowed(second, "a"), 4)
    later = BatchKey("q", 3, place(a=9, b=4, c=3), place(a=11, b=4, c=3))
    judge("a", line, narrowed(later, "a"))  # batch 2 had nothing of a
    with pytest.raises(LedgerError, match="leaves a gap"):
        judge("a", line, narrowed(BatchKey("q", 4, place(a=11), place(a=12)), "a"))
    assert narrowed(second, "c").start is None  # new in this batch


def test_a_topics_table_begins_with_the_first_batch_that_knows_of_records_of_it():
    first = BatchKey("q", 0, place(a=0, b=3, c=0), place(a=5, b=3, c=0))
    second = BatchKey("q", 1, place(a=5, b=3, c=0), place(a=5, b=4, c=2, d=7, e=0))
    assert [started(each) for each in (first, second)] == [{"a", "b"}, {"d"}]
    before = {topic: is_read(narrowed(second, topic).start) for topic in "abcde"}
    assert before == {"a": True, "b": True, "c": False, "d": False, "e": False}
    assert started(BatchKey("q", 4)) == started(BatchKey("q", 4, ('{"logOffset":3}',), ('{"logOffset":4}',))) == set()


def test_no_folder_is_made_for_what_is_no_topics_name(tmp_path):
    tables = Tables(str(tmp_path / "{topic}"))
    assert tables.table("orders").store.base == str(tmp_path / "orders")
    for name in ("../x", "", "..", None, "a/b"):
        with pytest.raises(TableError, match="is not the name of a topic"):
            tables.table(name)
    with pytest.raises(TableError, match="must stand where"):
        Tables(str(tmp_path))


def rows(**values: str | None) -> pa.Table:
    return pa.table({"id": pa.array(list(values), pa.string()), "value": pa.array(list(values.values()), pa.string())})


def test_a_keyed_table_holds_the_latest_row_of_each_key_and_takes_a_batch_once(tmp_path):
    def made() -> Upserts:
        return Upserts(tmp_path / "t", keys=["id"], order_by=["offset"], delete_when="new.value IS NULL")

    assert made().merge(rows(a="1", b="1"), BatchKey("q", 0)).rows == 2
    assert made().merge(rows(b="2", c="2", a=None, d=None), BatchKey("q", 1)).rows == 4
    assert made().merge(rows(b="9"), BatchKey("q", 1)).skipped
    assert made().merge(rows(), BatchKey("q", 2)) == (0, 1, False)
    with pytest.raises(LedgerError, match="comes from query r"):
        made().merge(rows(b="9"), BatchKey("r", 0))
    found = {row["id"]: row["value"] for row in made().read().to_pylist()}
    assert found == {"b": "2", "c": "2"}
    last = made().last()
    assert last is not None
    assert (last.batch_id, last.rows) == (2, 0)


def test_a_keyed_table_of_several_keys_tells_rows_apart_by_all_of_them_null_too(tmp_path):
    """`a IS NOT DISTINCT FROM b AND c` is read as of `b AND c`: no batch could be merged (type_coercion)."""

    def of(**rows: str) -> pa.Table:
        keys = [name.split("_") for name in rows]
        partitions = pa.array([None if part == "none" else int(part) for _, part in keys], pa.int32())
        return pa.table({"topic": [topic for topic, _ in keys], "partition": partitions, "value": list(rows.values())})

    table = Upserts(tmp_path / "t", keys=["topic", "partition"], order_by=["value"])
    table.merge(of(a_0="1", a_1="1", b_0="1", a_none="1"), BatchKey("q", 0))
    table.merge(of(a_1="2", b_1="2", a_none="2"), BatchKey("q", 1))
    found = {(row["topic"], row["partition"]): row["value"] for row in table.read().to_pylist()}
    assert found == {("a", 0): "1", ("a", 1): "2", ("b", 0): "1", ("b", 1): "2", ("a", None): "2"}


def test_a_helping_column_takes_no_name_that_the_rows_have():
    assert unused_name("_place", ["id", "value"]) == "_place"
    assert unused_name("_place", ["_Place", "_place_"]) == "_place__"
