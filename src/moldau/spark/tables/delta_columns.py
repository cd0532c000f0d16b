"""The columns of a Delta table: what two of them have in common, and which a table is not to have.

Source: the Delta protocol, "Partition Value Serialization" and "Column Mapping". Read next: delta.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pyarrow as pa
from deltalake import DeltaTable, Schema

from moldau.spark.tables.ledger import TableError

_NOTES = ("nullable", "containsNull", "valueContainsNull", "metadata")
_MODE = "delta.columnMapping.mode"
_PHYSICAL = "delta.columnMapping.physicalName"


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
