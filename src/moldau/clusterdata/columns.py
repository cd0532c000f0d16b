"""The columns of tables, as Spark names their types: said once, for Spark's schema, for Arrow and for the documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from moldau.model.named import NamedTuple

if TYPE_CHECKING:
    import pyarrow


class Column(NamedTuple):
    """A column: ``type`` is one of string, int, bigint, boolean, binary, array<string>, array<int>."""

    name: str
    type: str
    about: str


def ddl(columns: tuple[Column, ...]) -> str:
    """The columns as Spark reads a schema."""
    return ", ".join(f"`{one.name}` {one.type}" for one in columns)


def arrow_schema(columns: tuple[Column, ...]) -> pyarrow.Schema:
    """The columns as Arrow has them."""
    import pyarrow as pa

    types = {
        "string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "boolean": pa.bool_(), "binary": pa.binary(),
        "array<string>": pa.list_(pa.string()), "array<int>": pa.list_(pa.int32()),
    }  # fmt: skip
    return pa.schema([(one.name, types[one.type]) for one in columns])


def arrow_batches(
    columns: tuple[Column, ...], rows: Iterable[Sequence[object]], most: int = 8192
) -> Iterator[pyarrow.RecordBatch]:
    """Rows as Arrow batches; what comes before an error of the rows is given before it is raised."""
    import pyarrow as pa

    schema = arrow_schema(columns)
    of = iter(rows)
    while some := list(islice(of, most)):
        arrays = [pa.array(each, field.type) for each, field in zip(zip(*some, strict=True), schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
