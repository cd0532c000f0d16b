"""The columns that a pipeline's stages see: the decoded fields, and where each record came from.

Names that begin with an underscore are the pipeline's own, so that no field of a record can be mistaken for them.
"""

from __future__ import annotations

from typing import Final

TOPIC: Final = "_topic"
PARTITION: Final = "_partition"
OFFSET: Final = "_offset"
TIMESTAMP: Final = "_timestamp"
KEY: Final = "_key"
HEADERS: Final = "_headers"

PLACES: Final = {
    TOPIC: "string",
    PARTITION: "int",
    OFFSET: "bigint",
    TIMESTAMP: "timestamp",
    KEY: "binary",
    HEADERS: "array<struct<key: string, value: binary>>",
}
"""Columns of every decoded row beside its fields, with their SQL types."""

VALUE: Final = "_value"
SCHEMA_ID: Final = "_schema_id"
DRIFT: Final = "_drift"
OUTCOME: Final = "_outcome"
STAGE: Final = "_stage"
REASON: Final = "_reason"

RESERVED: Final = frozenset({*PLACES, VALUE, SCHEMA_ID, DRIFT, OUTCOME, STAGE, REASON})
"""Names that no field may have."""
