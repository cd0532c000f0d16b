"""The row a record becomes: column names in order and the schema Spark is told.

Light on purpose: it is imported when Spark looks for sources. The Arrow side of the same columns is in ``decode.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column
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


def unused_name(name: str, columns: Sequence[str]) -> str:
    """``name``, made longer until none of the columns has it; Spark tells no upper case from lower."""
    taken = {each.lower() for each in columns}
    while name.lower() in taken:
        name += "_"
    return name


def quoted(name: str) -> str:
    """A column's name as Spark's expressions take it: bare, ``a.b`` is the field b of a column a."""
    return "`" + name.replace("`", "``") + "`"


def check_schema(given: StructType, columns: Sequence[str]) -> None:
    """OptionError when a program asks for other columns than these options make: records have no other schema."""
    from moldau.spark.given import OptionError

    made = schema(columns)
    if [(each.name, each.dataType) for each in given.fields] != [(each.name, each.dataType) for each in made.fields]:
        raise OptionError(
            "schema", given.simpleString(),
            f"records have the schema {made.simpleString()}: leave .schema() out; the option columns picks some",
        )  # fmt: skip


_WHOLE = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSxxx",
          "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"}  # fmt: skip


_ROW = {
    **_WHOLE,
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS" + "X" * 3,
}  # Z for UTC, as Spark writes it by itself


def row_json(row: Column) -> Column:
    """A struct as JSON text from which its values can be read back: NULL is null, times have their microseconds."""
    from pyspark.sql import functions as fn

    return fn.to_json(row, _ROW)


def as_json(column: Column) -> Column:
    """Values of any type as JSON text, which is the same for equal values alone: where there is NULL within, and how
    long a list is, hashes pass over."""
    from pyspark.sql import functions as fn

    return fn.to_json(fn.struct(column.alias("v")), _WHOLE)
