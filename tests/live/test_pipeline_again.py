"""What is the same when a batch of a pipeline runs again: order and marks in a topic, and what dedup lets through."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from test_pipeline import Orders, orders, with_dedup

from moldau.pipeline.batches import ForeachBatch
from moldau.pipeline.begun import CutOff
from moldau.pipeline.books import Books
from moldau.pipeline.dedup import judged
from moldau.pipeline.reading import load
from moldau.pipeline.replays import Replays
from moldau.pipeline.running import Ended
from moldau.pipeline.spec import Dedup
from moldau.spark.sink import MARK, once

__all__ = ["orders"]  # a fixture

MANY = 400

pytestmark = pytest.mark.timeout(900)

STEPS = "SELECT id, amount * 2 AS twice, _topic, _partition, _offset FROM records"


def fill(orders: Orders, count: int) -> None:
    """Records ``{"id": n, "amount": n}``, of which each second one lies in partition 1."""
    producer = Producer({"bootstrap.servers": orders.bootstrap})
    for number in range(count):
        producer.produce(orders.topic, json.dumps({"id": number, "amount": number}).encode(), partition=number % 2)
    assert producer.flush(120) == 0


def declare(orders: Orders, replaced: Mapping[str, str]) -> None:
    orders.declare()
    text = orders.file.read_text().replace("max_records: 40", "max_records: 1000").replace("late: {", "#")
    for old, new in replaced.items():
        assert old in text
        text = text.replace(old, new)
    orders.file.write_text(text)


def there(orders: Orders) -> list[tuple[dict[str, int], str]]:
    """The values in the topic that was written, in the order of its only partition, each with its mark."""
    options = {"kafka.bootstrap.servers": orders.bootstrap, "subscribe": f"{orders.topic}-clean"}
    rows = orders.spark.read.format("moldau").options(**options, includeHeaders="true").load()
    return [
        (json.loads(row.value), next(bytes(one.value).decode() for one in row.headers if one.key == MARK))
        for row in rows.orderBy("partition", "offset").collect()
    ]


@pytest.mark.parametrize("steps", ["map", "none"])
def test_what_dedup_lets_through_is_written_in_the_order_of_the_log(orders: Orders, steps: str) -> None:
    """Dedup compares records by a hash of their key, which left them in the order of these hashes."""
    changed = {"check:": "dedup: {by: id}\ncheck:"}
    if steps == "none":
        changed |= {
            "transform:\n  - sql: SELECT id, amount * 2 AS twice, _topic, _partition, _offset FROM records\n": ""
        }
    declare(orders, changed)
    fill(orders, MANY)
    assert orders.run() is Ended.DONE
    found = [value["id"] for value, _ in there(orders)]
    assert sorted(found) == list(range(MANY))
    for partition in range(2):
        assert [one for one in found if one % 2 == partition] == list(range(partition, MANY, 2))


def test_rows_that_the_steps_shuffled_get_the_same_marks_when_their_batch_runs_again(
    orders: Orders, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    """A mark counts the rows of a task. In another order the second run would have marked other rows by the same marks,
    and who reads each mark once would have lost some of them."""
    declare(orders, {STEPS: "SELECT id % 50 AS id, count(*) AS twice FROM records GROUP BY 1"})
    fill(orders, MANY)

    def die(*_: object, **__: object) -> None:
        raise RuntimeError("dead before the books have it")

    with monkeypatch.context() as patched:
        patched.setattr(Books, "add", die)
        with pytest.raises(Exception, match="dead before the books have it"):
            orders.run()
    first = there(orders)
    assert len(first) == 50
    spark.conf.set("spark.sql.shuffle.partitions", "5")
    try:
        assert orders.run() is Ended.DONE
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "1")
    both = there(orders)
    assert len(both) == 100
    assert sorted(both[50:], key=str) == sorted(first, key=str)
    options = {"kafka.bootstrap.servers": orders.bootstrap, "subscribe": f"{orders.topic}-clean"}
    rows = once(spark.read.format("moldau").options(**options, includeHeaders="true").load())
    assert sorted(json.loads(row.value)["id"] for row in rows.collect()) == list(range(50))


@pytest.mark.parametrize("at", ["remembered", "written"])
def test_with_dedup_no_replay_comes_between_a_batch_that_was_cut_off_and_its_second_try(
    orders: Orders, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """The second try goes by what was known when the batch began: both let the key through, and the books balanced."""
    with_dedup(orders, "by: id")
    orders.write({"id": 1, "amount": -1}, {"id": 2, "amount": 1})
    assert orders.run() is Ended.DONE
    orders.write({"id": 1, "amount": 5}, {"id": 3, "amount": 5})

    def die(*_: object, **__: object) -> None:
        raise RuntimeError("dead in between")

    with monkeypatch.context() as patched:
        if at == "written":
            patched.setattr(Books, "add", die)
        else:
            patched.setattr(ForeachBatch, "_bury", die)
        with pytest.raises(Exception, match="dead in between"):
            orders.run()
    strict = orders.file.read_text()
    orders.file.write_text(strict.replace("amount >= 0", "amount > -10"))
    replays = Replays(load(orders.file, {}), orders.runner().folder)
    with pytest.raises(CutOff, match="batch 1 was cut off"):
        replays.replay(orders.spark, replays.waiting(), modules=None, on_line=orders.lines.append)
    orders.file.write_text(strict)
    assert orders.run() is Ended.DONE
    orders.file.write_text(strict.replace("amount >= 0", "amount > -10"))
    replays = Replays(load(orders.file, {}), orders.runner().folder)
    replays.replay(orders.spark, replays.waiting(), modules=None, on_line=orders.lines.append)
    assert orders.ids() == [1, 2, 3]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("struct<a: string, b: string>", ["'x', NULL", "NULL, 'x'", "NULL, NULL"]),
        ("array<string>", ["'a'", "'a', NULL", "NULL, 'a'", "'a', NULL, NULL", "", "NULL"]),
        ("array<array<bigint>>", ["array(1), array(2)", "array(1, 2)", "array(), array(1, 2)"]),
        ("struct<a: timestamp, b: string>", [f"timestamp'2026-11-26 00:00:00.00000{n}Z', 'x'" for n in (1, 2)]),
        ("string", ["'a'", "'b'"]),
    ],
)
def test_dedup_takes_different_keys_of_any_type_for_different_ones(
    spark: SparkSession, kind: str, values: list[str]
) -> None:
    """A hash passes over NULL within a value: records were left out for good, and counted as duplicates."""
    make = "array" if kind.startswith("array") else "struct" if kind.startswith("struct") else ""
    selects = [
        f"SELECT CAST({make}({value}) AS {kind}) k, 'ok' _outcome, '' _stage, '' _reason, 't' _topic, 0 _partition,"
        f" {number}L _offset, timestamp'2026-11-26 00:00:00Z' _timestamp"
        for number, value in enumerate([*values, *values])
    ]
    rows = judged(spark.sql(" UNION ALL ".join(selects)), Dedup(by=("k",), within="1h"))
    found = [row["_offset"] for row in rows.where("_outcome = 'ok'").collect()]
    assert sorted(found) == list(range(len(values)))
