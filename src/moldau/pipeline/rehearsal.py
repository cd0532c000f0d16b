"""A dry run: the next records of the source through all stages, as far as writing them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.model import TopicPartition
from moldau.pipeline import columns as names
from moldau.pipeline import stages
from moldau.pipeline.case_only import refuse_case_only
from moldau.pipeline.clusters import cluster_of
from moldau.pipeline.decode.plan import plan_decode
from moldau.pipeline.dedup import SeenKeys
from moldau.pipeline.feed.checkpoint import FeedCheckpoint
from moldau.pipeline.feed.open import open_feed
from moldau.pipeline.feed.planning import plan
from moldau.pipeline.feed.positions import next_position
from moldau.pipeline.feed.rows import rows_of
from moldau.pipeline.folder import PipelineFolder
from moldau.pipeline.lateness import checks_of
from moldau.pipeline.positions import as_start, lags
from moldau.pipeline.source_options import source_options
from moldau.pipeline.spec import REPLACED, OnError, Pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BATCH_HAS_NO = ("initialOffsetsLocation", "maxOffsetsPerTrigger", "maxBytesPerTrigger")


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """What would become of the records that were read."""

    read: int
    outcomes: Sequence[Mapping[str, object]]
    rows: Sequence[Mapping[str, object]]

    def to_row(self) -> Mapping[str, object]:
        """As JSON has it."""
        rows = [{name: _plain(value) for name, value in row.items()} for row in self.rows]
        return {"read": self.read, "outcomes": list(self.outcomes), "rows": rows}


def rehearse(
    spark: SparkSession, pipeline: Pipeline, folder: PipelineFolder, most: int, *, modules: Path | None
) -> Rehearsed:
    """Read up to ``most`` records from where the pipeline is, and judge and transform them."""
    if pipeline.source.feed is not None:
        rows = _of_feed(spark, pipeline, folder, most)
        return Rehearsed(0, [], []) if rows is None else _judge(rows, pipeline, most, modules)
    found = lags(pipeline, folder)
    share = max(1, most // max(1, sum(one.lag > 0 for one in found)))
    begin = {TopicPartition(one.topic, one.partition): one.next for one in found}
    end = {TopicPartition(one.topic, one.partition): min(one.end, one.next + share) for one in found}
    options = source_options(pipeline, cluster_of(pipeline), start=as_start(begin))
    options = {name: value for name, value in options.items() if name not in _BATCH_HAS_NO}
    records = spark.read.format("moldau").options(**options, endingOffsets=as_start(end)).load().limit(most)
    decoding = plan_decode(pipeline.decode, pipeline.source.topics)
    rows = stages.judged(records, decoding, pipeline.decode.on_error, checks_of(pipeline))
    if pipeline.dedup is not None:
        rows = SeenKeys(folder.store, pipeline.dedup).judged(rows)
    return _judge(rows, pipeline, most, modules)


def _of_feed(spark: SparkSession, pipeline: Pipeline, folder: PipelineFolder, most: int) -> DataFrame | None:
    """The next rows of a table's feed, None where there are none."""
    source = pipeline.source.feed
    assert source is not None, "a pipeline over a table"
    feed, noted = open_feed(source), FeedCheckpoint(folder).newest()
    at = next_position(pipeline, folder, feed)
    planned = plan(feed, source, at, None if noted is None else noted.schema, most)
    if planned is None:
        return None
    return stages.checked(
        rows_of(spark, planned, source.name, source.keys), REPLACED, OnError.SKIP, checks_of(pipeline)
    )


def _judge(rows: DataFrame, pipeline: Pipeline, most: int, modules: Path | None) -> Rehearsed:
    """What would become of the rows."""
    from pyspark.sql import functions as fn

    rows = rows.persist()
    try:
        place = fn.struct(names.PARTITION, names.OFFSET, names.REASON)
        grouped = rows.groupBy(names.TOPIC, names.OUTCOME, names.STAGE)
        outcomes = [
            {"topic": row[0], "outcome": row[1], "stage": row[2], "records": row["n"],
             "first": f"{row[0]}-{row['first'][0]}@{row['first'][1]}", "reason": row["first"][2]}
            for row in grouped.agg(fn.count("*").alias("n"), fn.min(place).alias("first")).collect()
        ]  # fmt: skip
        ok = rows.where(fn.col(names.OUTCOME) == stages.OK).drop(*names.INNER)
        transformed = stages.transformed(ok, pipeline.steps, modules)
        refuse_case_only(pipeline, transformed.schema)
        out = [row.asDict(True) for row in transformed.limit(most).collect()]
    finally:
        rows.unpersist()
    return Rehearsed(sum(int(str(one["records"])) for one in outcomes), outcomes, out)


def _plain(value: object) -> object:
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode(errors="backslashreplace")
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return str(value)
