"""Columns and fields of structs that a transformation gives and that no table can hold: names that differ in case only.

Spark makes a struct with ``a`` and ``A``, and tables take them for one. Read next: lint_parts.py (what can be seen in
the SQL), batches.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from moldau.pipeline.decode.types import case_only
from moldau.pipeline.spec import Pipeline, TableSink
from moldau.spark.tables import TableError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


def refuse_case_only(pipeline: Pipeline, schema: StructType) -> None:
    """TableError where a table of the pipeline is to hold columns, or fields within them, that are one to it."""
    wrong = list(_of_struct(schema, ""))
    tables = [sink.table for sink in pipeline.sinks if isinstance(sink, TableSink)]
    if wrong and tables:
        raise TableError(f"table {tables[0]}: {'; '.join(wrong)}: have the transformation name them otherwise")


def _of_struct(kind: StructType, path: str) -> Iterator[str]:
    seen: dict[str, str] = {}
    for field in kind.fields:
        name = f"{path}{field.name}"
        if (other := seen.setdefault(field.name.lower(), name)) is not name:
            yield f"{name!r} is there twice" if other == name else case_only(name, other)
        yield from _within(field.dataType, name)


def _within(kind: DataType, path: str) -> Iterator[str]:
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        yield from _of_struct(kind, f"{path}.")
    elif isinstance(kind, ArrayType):
        yield from _within(kind.elementType, f"{path}.element")
    elif isinstance(kind, MapType):
        yield from _within(kind.keyType, f"{path}.key")
        yield from _within(kind.valueType, f"{path}.value")
