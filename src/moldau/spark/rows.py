"""The row a record becomes: column names in order and the schema Spark is told.

Light on purpose: it is imported when Spark looks for sources. The Arrow side of the same columns is in ``decode.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

ALL_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
"""As Spark's own Kafka connector names and orders them; ``headers`` only when asked for."""


def schema(columns: Sequence[str]) -> StructType:
    """Spark's schema of these columns; all are nullable, as in Spark's own connector."""
    from pyspark.sql import types

    header = types.StructType().add("key", types.StringType()).add("value", types.BinaryType())
    of = {
        "key": types.BinaryType(),
        "value": types.BinaryType(),
        "topic": types.StringType(),
        "partition": types.IntegerType(),
        "offset": types.LongType(),
        "timestamp": types.TimestampType(),
        "timestampType": types.IntegerType(),
        "headers": types.ArrayType(header),
    }
    found = types.StructType()
    for name in columns:
        found.add(name, of[name])
    return found
