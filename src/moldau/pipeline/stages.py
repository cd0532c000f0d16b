"""The stages of a pipeline as functions of DataFrames: decode, check, transform. Nothing is written here.

``judged`` gives each record an outcome: ``ok``, or the policy of the stage that could not take it, with the stage and
the reason. ``transformed`` takes the rows that are ok through the steps. Read next: batches.py (who writes).
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from moldau.pipeline import columns as names
from moldau.pipeline.lint import RECORDS
from moldau.pipeline.spec import DECODE, Check, OnError, Step
from moldau.spark.decode import MAX_MS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from moldau.pipeline.decode import Decoding

OK = "ok"

ANSI = "spark.sql.ansi.enabled"
_REASON_LONGEST = 2000
UNREACHABLE_TIMES = f"timestamps beyond Spark's, which come as {MAX_MS} ms"


class StepError(Exception):
    """A step of the transformation that cannot be run; the message names it."""


def judged(records: DataFrame, decoding: Decoding, on_error: OnError, checks: Sequence[Check]) -> DataFrame:
    """The records of a batch, decoded, each with outcome, stage and reason, and with its raw value."""
    return checked(decoded(records, decoding), DECODE, on_error, checks)


def checked(rows: DataFrame, first: str, on_error: OnError, checks: Sequence[Check]) -> DataFrame:
    """Rows with outcome, stage and reason: of those that have a reason already, stage ``first`` said so."""
    with without_ansi(rows.sparkSession):  # a rule that cannot be computed is not met
        return outcomes(rows, first, on_error, checks)


def outcomes(rows: DataFrame, first: str, on_error: OnError, checks: Sequence[Check]) -> DataFrame:
    """As ``checked``; what a rule that cannot be computed comes to, the session's ANSI mode says."""
    from pyspark.sql import functions as fn

    failed = fn.col(names.REASON).isNotNull()
    outcome = fn.when(failed, fn.lit(on_error.value))
    stage = fn.when(failed, fn.lit(first))
    reason = fn.when(failed, fn.substring(names.REASON, 1, _REASON_LONGEST))
    for check in checks:
        broken = ~fn.coalesce(fn.expr(check.rule).cast("boolean"), fn.lit(False))
        outcome = outcome.when(broken, fn.lit(check.on_error.value))
        stage = stage.when(broken, fn.lit(check.name))
        reason = reason.when(broken, fn.lit(f"not met: {check.rule}"))
    outcome = outcome.otherwise(fn.lit(OK))
    return rows.withColumns({names.OUTCOME: outcome, names.STAGE: stage, names.REASON: reason})


def decoded(records: DataFrame, decoding: Decoding) -> DataFrame:
    """The records with their fields as columns, places, raw value, and what the decoder says of each."""
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = arrow_schema(decoding.schema)

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decoder = decoding.open()
        for batch in batches:
            given = batch.column("value")
            found = decoder.decode(given)
            fields = found.rows.flatten()  # a null row is nulls in every field
            yield pa.record_batch(
                [
                    *(field.cast(schema.field(at).type) for at, field in enumerate(fields)),
                    *(batch.column(name.removeprefix("_")) for name in names.PLACES),
                    given, found.schema_ids, with_far_times(found.drift, batch.column("timestamp")), found.errors,
                ],
                schema=schema,
            )  # fmt: skip

    wanted = [name.removeprefix("_") for name in (*names.PLACES, names.VALUE)]
    return records.select(*wanted).mapInArrow(decode, from_arrow_schema(schema))


def with_far_times(drift: pa.StringArray, timestamps: pa.TimestampArray) -> pa.StringArray:
    """The drift of records, which says too when a timestamp may be another one than the record's."""
    import pyarrow.compute as pc

    far = pc.fill_null(pc.greater_equal(pc.abs(timestamps.cast(pa.int64())), MAX_MS * 1000), False)
    if not pc.any(far).as_py():
        return drift
    told = pc.binary_join_element_wise(drift, UNREACHABLE_TIMES, "; ", null_handling="skip")
    return pc.if_else(far, told, drift)


def arrow_schema(fields: pa.Schema) -> pa.Schema:
    """The columns of ``decoded`` as Arrow types."""
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    return pa.schema(
        [
            *fields,
            (names.TOPIC, pa.string()),
            (names.PARTITION, pa.int32()),
            (names.OFFSET, pa.int64()),
            (names.TIMESTAMP, pa.timestamp("us", "UTC")),
            (names.KEY, pa.binary()),
            (names.HEADERS, pa.list_(header)),
            (names.VALUE, pa.binary()),
            (names.SCHEMA_ID, pa.int32()),
            (names.DRIFT, pa.string()),
            (names.REASON, pa.string()),
        ]
    )


def transformed(rows: DataFrame, steps: Sequence[Step], folder: Path | None = None) -> DataFrame:
    """The rows after every step; StepError when one cannot be planned. ``folder`` holds modules of Python steps."""
    for at, step in enumerate(steps):
        try:
            if step.sql is not None:
                rows.createOrReplaceTempView(RECORDS)
                rows = rows.sparkSession.sql(step.sql)
            else:
                rows = (step.function or load_function(step.python or "", folder))(rows)
        except KeyboardInterrupt:
            raise
        except Exception as error:
            raise StepError(f"transform[{at}]: {_first_line(error)}") from error
        except BaseException as error:  # sys.exit() in a step or its module: the thread of a batch would end, unheard
            raise StepError(f"transform[{at}]: it ended by {type(error).__name__}: {_first_line(error)}") from error
        if not hasattr(rows, "sparkSession"):
            raise StepError(f"transform[{at}]: {step.python} gave a {type(rows).__name__}, no DataFrame")
    return rows


def load_function(name: str, folder: Path | None) -> Callable[[DataFrame], DataFrame]:
    """The function that ``module:function`` names; modules beside the file come first."""
    module, _, function = name.partition(":")
    place = None if folder is None else str(folder.absolute())
    if place is not None and place not in sys.path:
        sys.path.insert(0, place)
    found: Callable[[DataFrame], DataFrame] = getattr(importlib.import_module(module), function)
    return found


@contextlib.contextmanager
def without_ansi(spark: SparkSession) -> Iterator[None]:
    """Expressions that are made meanwhile give NULL where they cannot be computed, instead of failing the batch."""
    before = spark.conf.get(ANSI)
    spark.conf.set(ANSI, "false")
    try:
        yield
    finally:
        spark.conf.set(ANSI, before or "true")


def _first_line(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0]
