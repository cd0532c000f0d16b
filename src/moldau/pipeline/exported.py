"""What the code of an exported pipeline calls, where Spark only lets plans be made: nothing is analysed or run here.

Read next: export.py (who writes that code), stages.py (the same stages in a pipeline's own batches).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from moldau.pipeline import columns as names
from moldau.pipeline.decode.plan import plan_decode
from moldau.pipeline.sinks import as_letters, as_rows, kept_column
from moldau.pipeline.spec import DECODE, Check, Decode, OnError, TopicSink
from moldau.pipeline.stages import OK, load_function, outcomes
from moldau.spark.rows import row_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from moldau.pipeline.decode import Decoding

_INNER = (names.VALUE, names.SCHEMA_ID, names.DRIFT, names.OUTCOME, names.STAGE, names.REASON)
"""What no transformation sees. ``drop`` would ask which of them there are, and nobody may ask yet."""

__all__ = ["as_records", "dead_rows", "failing", "judged", "letters", "load_function"]


def judged(records: DataFrame, decode: Decode, topics: Sequence[str], checks: Sequence[Check], here: Path) -> DataFrame:
    """The records of the source with their fields, outcome, stage and reason; files of schemas lie in ``here``."""
    if decode.schema_file is not None:
        decode = replace(decode, schema_file=str(here / decode.schema_file))
    return outcomes(_decoded(records, plan_decode(decode, topics)), DECODE, decode.on_error, checks)


def _decoded(records: DataFrame, decoding: Decoding) -> DataFrame:
    """As ``stages.decoded``, by a function of the value alone: ``mapInArrow`` asks for the columns, which Spark
    refuses while a pipeline is declared."""
    from pyspark.sql import functions as fn
    from pyspark.sql.pandas.functions import arrow_udf
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = pa.schema(
        [*decoding.schema, (names.SCHEMA_ID, pa.int32()), (names.DRIFT, pa.string()), (names.REASON, pa.string())]
    )

    def decode(values: Iterator[pa.Array]) -> Iterator[pa.Array]:
        decoder = decoding.open()
        for given in values:
            found = decoder.decode(given)
            fields = [field.cast(schema.field(at).type) for at, field in enumerate(found.rows.flatten())]
            yield pa.StructArray.from_arrays([*fields, found.schema_ids, found.drift, found.errors], fields=[*schema])

    # Not deterministic for the optimizer alone, which would decode once for each column that is asked for.
    decoder = arrow_udf(decode, from_arrow_schema(schema)).asNondeterministic()  # type: ignore[call-overload]  # no word of structs
    places = [fn.col(name.removeprefix("_")).alias(name) for name in (*names.PLACES, names.VALUE)]
    rows = records.select(*places, decoder(fn.col("value")).alias("_decoded"))
    return rows.select("_decoded.*", *names.PLACES, names.VALUE)


def failing(rows: DataFrame) -> DataFrame:
    """The rows that are ok, without the columns that no transformation sees; one of ``pause`` or ``fail`` raises."""
    from pyspark.sql import functions as fn

    place = fn.concat(
        fn.col(names.TOPIC), fn.lit("-"), fn.col(names.PARTITION).cast("string"), fn.lit("@"),
        fn.col(names.OFFSET).cast("string"), fn.lit(": stage "), fn.col(names.STAGE),
        fn.lit(" cannot take this record: "), fn.coalesce(fn.col(names.REASON), fn.lit("")),
    )  # fmt: skip
    ends = fn.col(names.OUTCOME).isin(OnError.PAUSE.value, OnError.FAIL.value)
    is_ok = fn.when(ends, fn.raise_error(place).cast("boolean")).otherwise(fn.col(names.OUTCOME) == OK)
    return rows.where(is_ok).selectExpr(f"* EXCEPT ({', '.join(_INNER)})")


def dead_rows(rows: DataFrame, pipeline: str) -> DataFrame:
    """Dead letters as rows of their table; no batch of books has written them."""
    from pyspark.sql import functions as fn

    return as_rows(rows.where(fn.col(names.OUTCOME) == OnError.DLQ.value), pipeline, None)


def letters(rows: DataFrame, pipeline: str) -> DataFrame:
    """Dead letters as records of their topic."""
    from pyspark.sql import functions as fn

    return as_letters(rows.where(fn.col(names.OUTCOME) == OnError.DLQ.value), pipeline)


def as_records(rows: DataFrame, sink: TopicSink) -> DataFrame:
    """As ``sinks.as_records``, of rows whose columns nobody knows yet."""
    from pyspark.sql import functions as fn

    # concat of one: bytes stay bytes, and whatever else is made a text.
    found = {} if sink.key is None else {"key": fn.concat(fn.expr(sink.key))}
    whole = fn.expr(f"struct(* EXCEPT ({', '.join(names.PLACES)}))")
    found["value"] = fn.concat(row_json(whole) if sink.value is None else fn.expr(sink.value))
    found |= {name: kept_column(name) for name in sink.keep}
    return rows.select(*(column.alias(name) for name, column in found.items()))
