"""The columns that a pipeline's stages see: the decoded fields, and where each record came from.

Names that begin with an underscore are the pipeline's own, so that no field of a record can be mistaken for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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

DEDUP_KEY: Final = "_dedup_key"
DEDUP_KEY_2: Final = "_dedup_key_2"
DEDUP_AT: Final = "_dedup_at"
DEDUP_NTH: Final = "_dedup_nth"
DEDUP_SEEN: Final = "_dedup_seen"
DEDUP_KEPT: Final = "_dedup_kept"

INNER: Final = (
    VALUE, SCHEMA_ID, DRIFT, OUTCOME, STAGE, REASON, DEDUP_KEY, DEDUP_KEY_2, DEDUP_AT, DEDUP_NTH, DEDUP_SEEN,
    DEDUP_KEPT,
)  # fmt: skip
"""Columns that no transformation sees."""

CHANGE: Final = "_change"
VERSION: Final = "_version"
FEED: Final = {CHANGE: "string", VERSION: "bigint"}
"""Columns that rows of a table's change feed have besides: what happened to the row, and in which version."""

RESERVED: Final = frozenset({*PLACES, *INNER})
"""Names that no field may have."""


def refused_names(fields: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Names of fields that no column can have, each with why."""
    seen: dict[str, str] = {}
    for name in fields:
        if (other := seen.setdefault(name.lower(), name)) != name:
            yield name, f"{name!r} and {other!r} differ in case only: tables take them for one"
        if "`" in name:
            yield name, f"{name!r}: Spark's functions take no name with a backtick; tables neither"
        if name.lower() in RESERVED:  # Spark does not tell cases apart
            yield name, f"{name!r} is a name of the pipeline's own: {', '.join(PLACES)}, ..."
