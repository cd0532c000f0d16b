"""Names of columns that mean something else to Spark, and fields of records that are called as the pipeline's own."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, Schema
from deltalake.schema import PrimitiveType
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit, timestamp_micros

from moldau.pipeline import columns as names
from moldau.pipeline import dedup, stages
from moldau.pipeline.books import BookTotals, Newest
from moldau.pipeline.decode.plan import plan_decode
from moldau.pipeline.lateness import checks_of, times
from moldau.pipeline.sinks import as_records, open_sink
from moldau.pipeline.spark_functions import NAMES
from moldau.pipeline.spec import Decode, Dedup, Late, OnError, Pipeline, Source, TableSink, TopicSink
from moldau.pipeline.stages import checked
from moldau.spark.rows import quoted
from moldau.spark.tables import BatchKey, Table, TableError
from moldau.spark.tables.upsert import Upserts

ODD = ("a.b", "c-d", 'e"f', "g h")


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    """Two rows whose column ``a.b`` is 1 and 2, beside a column ``a`` that has a field ``b``."""
    found = spark.sql("SELECT id + 1, named_struct('b', 77L), 'x', 'y', 'z' FROM range(2)")
    return found.toDF("a.b", "a", *ODD[1:])


def placed(rows: DataFrame) -> DataFrame:
    """The rows with places as records of one partition have them, one second old."""
    places = ("'t' _topic", "0 _partition", "monotonically_increasing_id() _offset", "timestamp_seconds(1) _timestamp")
    return rows.coalesce(1).selectExpr("*", *places)


def offsets(**topics: int) -> tuple[str, ...]:
    return (json.dumps({name: {"0": at} for name, at in topics.items()}),)


def test_a_topic_has_the_column_that_is_named_and_not_a_field_of_another(rows: DataFrame) -> None:
    found = [json.loads(row.value) for row in as_records(rows, TopicSink(topic="t")).collect()]
    assert found == [{"a.b": at, "a": {"b": 77}, "c-d": "x", 'e"f': "y", "g h": "z"} for at in (1, 2)]


FIELDS = {
    "t": "timestamp", "n": "long", "d": "decimal(9,2)", "b": "binary", "s": "struct<t: timestamp, n: int>",
    "l": "array<timestamp>", "m": "map<string, timestamp>", "day": "date",
}  # fmt: skip
TIME = "timestamp_micros(-1)", "timestamp_micros(1764200000123456)", "timestamp_micros(253402300799999999)"


def test_a_row_that_a_topic_has_as_json_is_read_back_as_it_was(spark: SparkSession) -> None:
    whole = [
        f"SELECT {at} AS t, 1L AS n, -1.50BD AS d, X'00ff' AS b, named_struct('t', {at}, 'n', CAST(NULL AS INT)) AS s, "
        f"array({at}, NULL) AS l, map('k', {at}, 'none', NULL) AS m, DATE'2026-11-23' AS day" for at in TIME
    ]  # fmt: skip
    rows = spark.sql(" UNION ALL ".join(whole))
    empty = [f"CAST(NULL AS {field.dataType.simpleString()}) AS {field.name}" for field in rows.schema]
    rows = rows.unionByName(rows.limit(1).selectExpr(*empty))
    values = [row.value for row in as_records(rows, TopicSink(topic="t")).collect()]
    assert all(json.loads(value).keys() == FIELDS.keys() for value in values), "NULL is written too"
    decoded = plan_decode(Decode(fields=FIELDS), ("t",)).open().decode(pa.array([one.encode() for one in values]))
    assert decoded.errors.null_count == len(values)
    assert decoded.rows.to_pylist() == rows.select(*FIELDS).toArrow().to_pylist()


@pytest.mark.parametrize("name", ODD)
def test_a_table_is_partitioned_and_keyed_by_a_column_of_any_name(rows: DataFrame, tmp_path: Path, name: str) -> None:
    key = BatchKey("q", 0)
    for kind in ("delta", "parquet"):
        sink = TableSink(table=str(tmp_path / kind), format=kind, partition_by=(name,))
        assert open_sink(sink, "p", "").write(rows, key, 2).rows == 2
    keyed = Upserts(tmp_path / "keyed", keys=[name], order_by=[name], pipeline="p")
    keyed.append(rows, key)
    keyed.append(rows, BatchKey("q", 1))
    assert keyed.read().num_rows == (2 if name == "a.b" else 1)


def test_a_table_made_of_literals_takes_nulls_once_the_sql_is_another_one(spark: SparkSession, tmp_path: Path) -> None:
    catalog = {"catalog": "c", "type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}"}
    sinks = [
        TableSink(table=str(tmp_path / "delta")), TableSink(table=str(tmp_path / "parquet"), format="parquet"),
        TableSink(table=str(tmp_path / "iceberg"), format="iceberg", options=catalog),
        TableSink(table=str(tmp_path / "keyed"), keys=("id",), order_by=("id",)),
    ]  # fmt: skip
    made = "SELECT 1L AS id, coalesce(NULL, 5L) AS v, array(1L) AS l"
    for batch, sql in enumerate(
        [made, "SELECT 2L AS id, CAST(NULL AS LONG) AS v, array(NULL, 2L) AS l", "SELECT 3L AS id"]
    ):
        for sink in sinks:
            table = open_sink(sink, "p", "")
            table.check(spark.sql(sql), ["t"], 1)
            assert table.write(spark.sql(sql), BatchKey("q", batch), 1).rows == 1


def test_a_keyed_table_tells_of_nulls_that_it_refuses_before_it_is_written(spark: SparkSession, tmp_path: Path) -> None:
    long = PrimitiveType("long")
    DeltaTable.create(tmp_path, Schema([Field("id", long), Field("v", long, nullable=False), Field("at", long)]))
    rows = spark.sql("SELECT 1L AS id, if(id = 1, NULL, 1L) AS v, id AS at FROM range(3)")
    table = Upserts(tmp_path, keys=["id"], order_by=["at"], pipeline="p")
    table.check(rows)  # the row with NULL is none that is merged
    with pytest.raises(TableError, match=r"v may not be NULL there"):
        table.check(rows.where("at < 2"))
    Upserts(tmp_path, keys=["id"], order_by=["at"], delete_when="source.v IS NULL", pipeline="p").check(
        rows.where("at < 2")
    )


def test_a_text_that_is_no_time_is_not_late_and_stops_no_batch(spark: SparkSession) -> None:
    texts = ["junk", "99999999-01-01", "1970-01-01T00:00:01Z", None, "1970-01-01T01:00:02Z", ""]
    rows = placed(spark.createDataFrame([(text, "ok") for text in texts], f"s string, {names.OUTCOME} string"))
    newest = Newest(3_602_000, "t-0@4", 1000)
    for newest_ms, late, first in ((None, 0, None), (3_602_000, 1, "t-0@2")):
        assert times(rows, Late(column="s", after="1h"), BookTotals(newest_ms=newest_ms)) == (late, first, newest)
    none = rows.where("s IS NULL OR s = 'junk'")
    assert times(none, Late(column="s", after="1h"), BookTotals(newest_ms=3_602_000)) == (0, None, None)


def test_a_time_that_is_further_ahead_than_is_allowed_is_a_stages_and_makes_nothing_late(spark: SparkSession) -> None:
    texts = ["1970-01-01T00:00:01Z", "1970-01-01T01:00:01Z", "1970-01-01T01:00:01.001Z", "junk", None, "9999-12-31"]
    late = Late(column="s", after="1m", ahead="1h", on_error=OnError.SKIP)
    pipeline = Pipeline(name="p", folder="f", cluster=None, source=Source(), decode=Decode(), late=late)
    made = placed(spark.createDataFrame([(text,) for text in texts], "s string"))
    rows = checked(
        made.selectExpr("*", f"CAST(NULL AS string) {names.REASON}"), "decode", OnError.FAIL, checks_of(pipeline)
    )
    stages = {row[names.OFFSET]: (row[names.OUTCOME], row[names.STAGE]) for row in rows.collect()}
    assert stages == {0: ("ok", None), 1: ("ok", None), 2: ("skip", "ahead"), 3: ("ok", None), 4: ("ok", None),
                      5: ("skip", "ahead")}  # fmt: skip
    newest = Newest(3_601_000, "t-0@1", 1000)
    known = BookTotals(newest_ms=3_601_000, newest_record="t-0@1", newest_stamped_ms=1000)
    assert times(rows, late, known) == (1, "t-0@0", newest)
    far = replace(known, newest_ms=253402300799000)  # seen before the file had the bound
    assert times(rows, late, far) == (0, None, newest)
    assert times(rows, late, replace(known, newest_stamped_ms=None)) == (0, None, newest)
    assert times(rows, replace(late, ahead=None), far) == (2, "t-0@0", newest)
    furthest = made.withColumn(names.TIMESTAMP, timestamp_micros(lit((1 << 63) - 1)))  # a sum would be beyond Spark's
    rows = checked(
        furthest.selectExpr("*", f"CAST(NULL AS string) {names.REASON}"), "decode", OnError.FAIL, checks_of(pipeline)
    )
    assert rows.where(f"{names.OUTCOME} = 'ok'").count() == len(texts)


def test_lateness_and_duplicates_are_told_by_the_column_that_is_named(spark: SparkSession) -> None:
    made = spark.sql("SELECT timestamp_seconds(100 * id), named_struct('b', timestamp_seconds(7)), 'ok' FROM range(3)")
    rows = made.toDF("a.b", "a", names.OUTCOME)
    places = rows.selectExpr("*", "'t' _topic", "0 _partition", "1L _offset", "timestamp_seconds(1) _timestamp")
    assert times(places, Late(column="a.b", after="1h"), BookTotals()) == (0, None, Newest(200_000, "t-0@1", 1000))
    found = dedup.hashed(places, Dedup(by=("a.b",), within="1d", at="a.b"))
    assert found.select(names.DEDUP_KEY).distinct().count() == 3
    assert quoted("a`b") == "`a``b`"


def test_the_linter_knows_the_functions_that_spark_has(spark: SparkSession) -> None:
    """Of each Spark that is supported: what is missing is written by scripts/spark_functions.py."""
    there = {row.function for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    assert {name for name in there if re.fullmatch(r"[a-z][a-z0-9_]*", name)} - NAMES == set()


def test_a_row_goes_to_the_table_of_its_records_topic_whatever_its_own_field_says(
    spark: SparkSession, tmp_path: Path
) -> None:
    values = [(1, "other", "orders"), (2, None, "orders"), (3, "../../evil", "returns")]
    rows = spark.createDataFrame(values, "id long, topic string, _topic string")
    key = BatchKey("q", 0, offsets(orders=0, returns=0), offsets(orders=2, returns=1))
    sink = TableSink(table=str(tmp_path / "by-{topic}"), format="delta")
    assert open_sink(sink, "p", "").write(rows, key, 3).rows == 3
    assert sorted(one.name for one in tmp_path.iterdir()) == ["by-orders", "by-returns"]
    found = Table(tmp_path / "by-orders", pipeline="p").read()
    assert sorted(found["id"].to_pylist()) == [1, 2]
    assert found.column_names == ["id", "topic", "_topic"]
    assert set(found["topic"].to_pylist()) == {"other", None}


def test_a_table_for_each_topic_refuses_columns_before_anything_is_written(spark: SparkSession, tmp_path: Path) -> None:
    """It was looked at by the write alone: dead letters and the sinks before it had the batch then."""
    rows = spark.createDataFrame([(1, "orders"), (2, "returns")], "id long, _topic string")
    key = BatchKey("q", 0, offsets(orders=0, returns=0), offsets(orders=1, returns=1))
    target = open_sink(TableSink(table=str(tmp_path / "by-{topic}"), format="delta"), "p", "")
    target.check(rows, ["orders", "returns"], 2)
    assert list(tmp_path.iterdir()) == []
    target.write(rows, key, 2)
    other = rows.selectExpr("CAST(id AS STRING) AS id", "_topic")
    with pytest.raises(TableError, match="do not fit table .*by-returns: they differ in id"):
        target.check(other, ["returns"], 1)
    target.check(other, ["new"], 1)
    with pytest.raises(TableError, match="must keep the column _topic"):
        target.check(rows.drop("_topic"), ["orders"], 1)


def test_a_table_for_each_topic_is_not_written_where_nothing_says_the_records_topic(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = spark.createDataFrame([(1, "other")], "id long, topic string")
    sink = TableSink(table=str(tmp_path / "by-{topic}"), format="delta")
    with pytest.raises(TableError, match="must keep the column _topic"):
        open_sink(sink, "p", "").write(rows, BatchKey("q", 0, offsets(orders=0), offsets(orders=1)), 1)
    assert list(tmp_path.iterdir()) == []


def test_a_step_that_ends_the_program_is_an_error_of_that_step(rows: DataFrame, tmp_path: Path) -> None:
    from moldau.pipeline.spec import Step

    (tmp_path / "leaves.py").write_text("import sys\n\ndef clean(rows):\n    sys.exit('bad configuration')\n")
    (tmp_path / "leaves_at_once.py").write_text("raise SystemExit\n")
    told = "it ended by SystemExit: bad configuration"
    for name, match in (("leaves:clean", told), ("leaves_at_once:clean", "it ended by SystemExit: SystemExit")):
        with pytest.raises(stages.StepError, match=r"transform\[0\]: " + match):
            stages.transformed(rows, [Step(python=name)], tmp_path)
