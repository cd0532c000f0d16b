"""Event times of a batch: which rows came late, what was the newest time, and how far ahead one may be.

Late is what lies further behind the newest event time of earlier batches than ``late.after``: one record from the far
future makes all that follow late. Where ``late.ahead`` says how far an event time may be ahead of the record's own
timestamp, such a record is one that the stage ``ahead`` cannot take. Read next: batches.py (who asks).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from moldau.pipeline import columns as names
from moldau.pipeline.books import BookTotals, Newest
from moldau.pipeline.durations import seconds
from moldau.pipeline.spec import AHEAD, Check, Late, Pipeline
from moldau.pipeline.stages import OK
from moldau.spark.rows import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Times(NamedTuple):
    """How many rows of a batch came late, the first of them, and the newest event time of the batch."""

    late: int = 0
    first: str | None = None
    newest: Newest | None = None


def checks_of(pipeline: Pipeline) -> tuple[Check, ...]:
    """The checks of the file, and behind them the one that bounds event times."""
    late = pipeline.late
    if late is None or late.ahead is None:
        return pipeline.checks
    # In milliseconds, as the sum of a time and a span may be beyond Spark's times.
    at = f"unix_millis(try_cast({quoted(late.column)} AS timestamp))"
    rule = f"coalesce({at} - unix_millis({names.TIMESTAMP}) <= {_ms(late.ahead)}, true)"
    return (*pipeline.checks, Check(name=AHEAD, rule=rule, on_error=late.on_error))


def allowed(late: Late, totals: BookTotals) -> bool:
    """Whether the newest time of the books is one that ``ahead`` allows: it may have been seen before the file said so,
    by a record of which the books do not know the timestamp."""
    if late.ahead is None or totals.newest_ms is None:
        return True
    return totals.newest_stamped_ms is not None and totals.newest_ms - totals.newest_stamped_ms <= _ms(late.ahead)


def times(rows: DataFrame, late: Late | None, before: BookTotals) -> Times:
    """The event times of a batch's rows that are ok, judged by what earlier batches saw. A value that is no time is
    not late, and is no newest one."""
    from pyspark.sql import functions as fn

    if late is None:
        return Times()
    at = fn.unix_millis(fn.col(quoted(late.column)).try_cast("timestamp"))  # a text may be no time
    is_late = fn.lit(False)
    if before.newest_ms is not None and allowed(late, before):
        is_late = fn.coalesce(at < fn.lit(before.newest_ms - _ms(late.after)), fn.lit(False))
    place = fn.struct(names.TOPIC, names.PARTITION, names.OFFSET)
    # Of records with the same time the first one, so that the batch says the same when it runs again.
    backwards = (-fn.col(names.PARTITION), -fn.col(names.OFFSET), fn.col(names.TOPIC))
    newest = fn.struct(
        at.alias("at"), *backwards, place.alias("place"), fn.unix_millis(names.TIMESTAMP).alias("stamped")
    )
    found = rows.where(fn.col(names.OUTCOME) == OK).agg(
        fn.count_if(is_late).alias("late"),
        fn.min(fn.when(is_late, place)).alias("first"),
        fn.max(fn.when(at.isNotNull(), newest)).alias("newest"),
    )
    row = found.collect()[0]
    first = None if row["first"] is None else _place(*row["first"])
    if row["newest"] is None:
        return Times(row["late"], first)
    return Times(row["late"], first, Newest(row["newest"].at, _place(*row["newest"].place), row["newest"].stamped))


def _place(topic: str, partition: int, offset: int) -> str:
    return f"{topic}-{partition}@{offset}"


def _ms(duration: str) -> int:
    return round(seconds(duration) * 1000)
