"""The columns of a Delta table: what two of them have in common, and which a table is not to have.

Source: the Delta protocol, "Partition Value Serialization" and "Column Mapping". Read next: delta.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema

from moldau.spark.tables.columns import ColumnsError
from moldau.spark.tables.files import DataFile
from moldau.spark.tables.ledger import TableError
from moldau.spark.tables.stores import Store

_NOTES = ("nullable", "containsNull", "valueContainsNull", "metadata")
_MODE = "delta.columnMapping.mode"
_PHYSICAL = "delta.columnMapping.physicalName"
_CONSTRAINT = "delta.constraints."
_RULES = ("delta.invariants", "delta.generationExpression", "delta.identity.start")
"""What a column's metadata says where its values go by a rule."""


def columns_of(schema: Schema) -> dict[str, object]:
    """Each column's type without what does not change a row: nullability and notes, at any depth."""
    return {field["name"]: _bare(field["type"]) for field in json.loads(schema.to_json())["fields"]}


def _bare(kind: object) -> object:
    if isinstance(kind, dict):
        return {name: _bare(part) for name, part in kind.items() if name not in _NOTES}
    if isinstance(kind, list):
        return [_bare(part) for part in kind]
    return kind


def refuse_lossy_partitions(table: str, schema: pa.Schema, partition_by: Sequence[str]) -> None:
    """TableError for a partition column whose values would not be read back: delta-rs 1.x takes -0.01 in a folder's
    name for 0.-1, and writes bytes otherwise than it reads them; merging its files would write that into the log."""
    kinds = {field.name: field.type for field in schema}
    for name in partition_by:
        kind = kinds.get(name, pa.null())
        if pa.types.is_decimal(kind) and kind.scale > 0:
            raise TableError(f"table {table}: {name} is a {kind}, whose negative values would be lost as partitions")
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
            raise TableError(f"table {table}: {name} is a {kind}, whose values would become others as partitions")


def refuse_mapped(table: str, there: DeltaTable) -> None:
    """TableError for a table whose files have other names for its columns than it has: rows that are written under
    these would be read as nulls."""
    mode = there.metadata().configuration.get(_MODE, "none")
    if mode == "none":
        return
    names = [] if mode == "name" else ["by ids"]
    names += [name for field in json.loads(there.schema().to_json())["fields"] for name in _renamed(field)]
    if names:
        raise TableError(
            f"table {table}: its columns are mapped ({_MODE} is {mode}: {', '.join(names[:3])}), and rows written here "
            "would be read as nulls; write another table"
        )


def _renamed(kind: object) -> list[str]:
    """The columns, at any depth, that files have under another name."""
    if isinstance(kind, list):
        return [name for part in kind for name in _renamed(part)]
    if not isinstance(kind, dict):
        return []
    notes, name = kind.get("metadata"), str(kind.get("name"))
    physical = notes.get(_PHYSICAL, name) if isinstance(notes, Mapping) else name
    own = [] if physical == name else [f"{name} is {physical}"]
    return own + [each for label, part in kind.items() if label != "metadata" for each in _renamed(part)]


def refuse_rules(table: str, there: DeltaTable) -> None:
    """ColumnsError for a table whose rows have to meet rules that nobody looks at where files are added as they are:
    constraints, and columns that are computed."""
    told = there.metadata().configuration
    rules = [f"{name.removeprefix(_CONSTRAINT)}: {rule}" for name, rule in told.items() if name.startswith(_CONSTRAINT)]
    for field in json.loads(there.schema().to_json())["fields"]:
        rules += [f"{name} of {field['name']}" for name in _RULES if name in (field.get("metadata") or {})]
    if rules:
        raise ColumnsError(
            f"table {table} has rules that are not looked at when rows are added here "
            f"({', '.join(sorted(rules)[:3])}): have a check of the rows say what becomes of those that break them, "
            "and drop the rules, or write another table"
        )


def required_of(there: DeltaTable) -> list[str]:
    """The columns that may not be null."""
    return [field.name for field in there.schema().fields if not field.nullable]


def refuse_lacking(table: str, there: DeltaTable, ours: Iterable[str]) -> None:
    """ColumnsError where the rows lack a column that may not be null."""
    if lacking := sorted(set(required_of(there)) - set(ours)):
        raise ColumnsError(
            f"table {table}: the rows lack {', '.join(lacking)}, which may not be NULL there: have them, or "
            f"{_let_in(table, lacking[0])}"
        )


def refuse_nulls(store: Store, there: DeltaTable, files: Sequence[DataFile]) -> None:
    """ColumnsError where files have a null in a column that may not be null: readers would go by that."""
    names = required_of(there)
    for each in files if names else ():
        found = {name for name in names if name in each.partition and each.partition[name] is None}
        with store.filesystem.open_input_file(store.at(each.path)) as file:
            found |= _with_nulls(pq.ParquetFile(file), names)
        if found:
            raise ColumnsError(nulls_of(str(store), sorted(found)))


def _with_nulls(file: pq.ParquetFile, names: Sequence[str]) -> set[str]:
    """The columns with a null in them. The footer does not say it of structs and lists, nor of texts and bytes above
    4 KB, for which Spark writes no statistics: these columns are read."""
    counts: dict[str, int | None] = {}
    for group in range(file.metadata.num_row_groups):
        for index in range(file.metadata.num_columns):
            column = file.metadata.row_group(group).column(index)
            told = None if column.statistics is None else column.statistics.null_count
            before = counts.get(column.path_in_schema, 0)
            counts[column.path_in_schema] = None if before is None or told is None else before + told
    inside = set(names).intersection(file.schema_arrow.names)
    found = {name for name in inside if counts.get(name)}
    for name in sorted(name for name in inside if counts.get(name) is None):
        if any(batch.column(name).null_count for batch in file.iter_batches(columns=[name])):
            found.add(name)
    return found


def nulls_of(table: str, names: Sequence[str]) -> str:
    """The sentence about rows with a null where the table has none."""
    rule = f"{names[0]} IS NOT NULL"
    return (
        f"table {table}: {', '.join(names)} may not be NULL there, and is in some of the rows: a check of the rows "
        f"({rule}) says what becomes of these, or {_let_in(table, names[0])}"
    )


def _let_in(table: str, name: str) -> str:
    """How the owner of a table lets nulls into a column: delta-rs has no call for it."""
    return f"let NULL in, by Spark's ALTER TABLE delta.`{table}` ALTER COLUMN {name} DROP NOT NULL"
