"""Types and columns of which all parts may be null, whatever those that they come from say.

Spark calls a column that its SQL never leaves null (``coalesce(a, 0)``, a literal) not nullable. That says nothing of
rows to come, whose SQL may be another one. Read next: tables/columns.py (how rows fit a table).
"""

from __future__ import annotations

import pyarrow as pa


def nullable(kind: pa.DataType) -> pa.DataType:
    """The type with parts that may all be null."""
    if pa.types.is_struct(kind):
        return pa.struct([(one.name, nullable(one.type)) for one in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field(kind.value_field.name, nullable(kind.value_type)))
    return pa.map_(kind.key_type, nullable(kind.item_type)) if pa.types.is_map(kind) else kind


def nullable_columns(schema: pa.Schema) -> pa.Schema:
    """The columns, all of which may be null."""
    return pa.schema([pa.field(one.name, nullable(one.type)) for one in schema])
