"""What a table's feed is made of: versions, the pieces of files that hold their changes, and positions between rows.

A version (a snapshot, of Iceberg) is a list of pieces in an order that never changes, so that a position in it is a
number of rows. Nothing here reads files. Read next: delta.py, iceberg.py (where versions come from), planning.py.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import Protocol

import pyarrow as pa

from moldau.pipeline.typed import read_json


class FeedError(RuntimeError):
    """A table whose changes cannot be given as they were asked for; the message names table, version and way out."""


class RowChange(Enum):
    """What happened to a row."""

    INSERT = "insert"
    UPDATE = "update"
    """The row as it is after an update."""
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a feed: ``done`` is the last version that was taken whole (None: none), ``at`` the one of which the
    first ``row`` rows were taken. ``whole``: ``at`` is taken as the table was then, and not as what it changed.
    ``rows`` counts all that was taken so far."""

    table: str
    """The id of the table; another table at the same place has another one."""
    done: int | None = None
    at: int | None = None
    row: int = 0
    whole: bool = False
    rows: int = 0

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Position:
        """The position of a text; ValueError says why there is none."""
        return read_json(cls, text.encode())


class Reading(Protocol):
    """How one file's rows are read, by whichever process; it is pickled."""

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows in their order, as the table's columns, and as ``_change_type`` where the file says it itself."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The rows of a file from number ``first`` on; ``change`` is what happened to them, None where the file says it."""

    reading: Reading
    name: str
    change: RowChange | None
    first: int
    rows: int


@dataclass(frozen=True, slots=True)
class Version:
    """What one version changed. ``takes_back``: rows were deleted or updated, too."""

    number: int
    at_ms: int
    schema: pa.Schema
    pieces: Sequence[Piece]
    takes_back: bool = False

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.pieces)


class ChangeFeed(Protocol):
    """A table's versions. Every method may raise FeedError, or OSError where the table cannot be reached."""

    name: str

    def id(self) -> str:
        """The table's id."""

    def newest(self) -> int:
        """The newest version."""

    def first(self) -> int | None:
        """What ``done`` is before the oldest version that can still be read; None: nothing was done."""

    def before(self, version: int) -> int | None:
        """What ``done`` is before this version. FeedError when there is no such version."""

    def following(self, done: int | None) -> Sequence[int]:
        """The versions after ``done``, oldest first; some of them when there are many."""

    def changes(self, number: int, before: pa.Schema | None) -> Version:
        """What a version changed; its columns are those of ``before`` unless it says others."""

    def whole(self, number: int) -> Version:
        """All rows of the table at a version, as inserts."""


@dataclass(frozen=True, slots=True)
class VersionSlice:
    """The part of a version that is in a batch; its first row is number ``first`` of the feed."""

    number: int
    at_ms: int
    pieces: Sequence[Piece]
    takes_back: bool
    first: int


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """A batch: from where to where, the columns, and what is read for it."""

    start: Position
    end: Position
    schema: pa.Schema
    slices: Sequence[VersionSlice]

    @property
    def rows(self) -> int:
        return self.end.rows - self.start.rows


def cut(pieces: Sequence[Piece], first: int, most: int) -> list[Piece]:
    """The pieces' rows from number ``first`` on, ``most`` of them."""
    found: list[Piece] = []
    for piece in pieces:
        skipped = min(first, piece.rows)
        first -= skipped
        taken = min(piece.rows - skipped, most)
        most -= taken
        if taken:
            found.append(replace(piece, first=piece.first + skipped, rows=taken))
    return found


def schema_to_text(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def schema_of_text(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.BufferReader(base64.b64decode(text)))


def difference(before: pa.Schema, after: pa.Schema) -> str:
    """How two tables' columns differ, in words; an empty text when they do not."""
    old, new = ({field.name: str(field.type) for field in schema} for schema in (before, after))
    told = [f"column {name} ({new[name]}) is new" for name in new if name not in old]
    told += [f"column {name} is gone" for name in old if name not in new]
    told += [
        f"column {name} was {old[name]} and is {new[name]}" for name in new if old.get(name, new[name]) != new[name]
    ]
    return ", ".join(told)
