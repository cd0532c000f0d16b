"""Which rows of a table's feed are the next batch: of whole versions as many as fit, or a part of one.

A version that deletes or updates rows is never cut: which of its deleted keys are written again is told from all of
it. Columns do not change within a batch. Read next: running.py (who asks).
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from moldau.pipeline.columns import FEED, RESERVED
from moldau.pipeline.feed.changes import (
    ChangeFeed,
    FeedError,
    PlannedBatch,
    Position,
    Version,
    VersionSlice,
    cut,
    difference,
)
from moldau.pipeline.spec import Deletes, SchemaChange, TableFeed

BATCH_MOST = 100_000
_VERSIONS_MOST = 1000
"""A batch covers at most so many versions, however few rows they have."""


def begin(feed: ChangeFeed, start: str) -> Position:
    """The position that a word of the file stands for: snapshot, earliest, latest, or a version to begin with."""
    table = feed.id()
    if start == "snapshot":
        return Position(table, at=feed.newest(), whole=True)
    if start == "latest":
        return Position(table, done=feed.newest())
    if start == "earliest":
        return Position(table, done=feed.first())
    return Position(table, done=feed.before(int(start)))


def check_table(feed: ChangeFeed, position: Position) -> None:
    """FeedError when the table is another one than the position is of."""
    found = feed.id()
    if found != position.table:
        raise FeedError(
            f"{feed.name} is another table than the one that was read (id {found}, was {position.table}): begin anew "
            "with `moldau pipeline reset --to snapshot` or --to earliest"
        )


def plan(
    feed: ChangeFeed,
    source: TableFeed,
    position: Position,
    known: pa.Schema | None,
    most: int,
    *,
    until: int | None = None,
) -> PlannedBatch | None:
    """The batch that comes next, None when there is nothing new up to version ``until``; ``known`` are the columns of
    the batch before."""
    check_table(feed, position)
    if until is not None and position.done == until:
        return None
    if position.whole:
        assert position.at is not None, "a snapshot is of a version"
        return _part(feed, source, feed.whole(position.at), position, known, most=most)
    slices: list[VersionSlice] = []
    at, schema = position, known
    for number in feed.following(position.done)[:_VERSIONS_MOST]:
        version = feed.changes(number, schema)
        left = most - (at.rows - position.rows)
        if slices and (left <= 0 or (schema is not None and difference(schema, version.schema))):
            break
        if slices and version.rows > left:
            break
        part = _part(feed, source, version, at, schema, most=left)
        slices, at, schema = [*slices, *part.slices], part.end, part.schema
        if at.at is not None or number == until:
            break
    if at == position:
        return None
    assert schema is not None, "a version says its columns"
    return PlannedBatch(position, at, schema, slices)


def _part(
    feed: ChangeFeed, source: TableFeed, version: Version, position: Position, known: pa.Schema | None, *, most: int
) -> PlannedBatch:
    """The rows of one version that follow a position, ``most`` of them unless it may not be cut."""
    _check(feed, source, version, known)
    row = position.row if position.at == version.number else 0
    taken = version.rows - row if version.takes_back else min(most, version.rows - row)
    slices = [
        VersionSlice(version.number, version.at_ms, cut(version.pieces, row, taken), version.takes_back, position.rows)
    ]
    rows = position.rows + taken
    if row + taken < version.rows:
        end = replace(position, at=version.number, row=row + taken, rows=rows)
    else:
        end = Position(position.table, done=version.number, rows=rows)
    return PlannedBatch(position, end, version.schema, slices)


def _check(feed: ChangeFeed, source: TableFeed, version: Version, known: pa.Schema | None) -> None:
    what = f"{feed.name}, version {version.number}"
    own = [name for name in version.schema.names if name.lower() in RESERVED or name.lower() in FEED]
    seen: dict[str, str] = {}
    for name in version.schema.names:  # Spark does not tell cases apart
        if (other := seen.setdefault(name.lower(), name)) != name:
            raise FeedError(f"{what}: columns {other} and {name} differ in case only, and Spark takes them for one")
    if own:
        raise FeedError(
            f"{what}: {', '.join(own)} are names of the pipeline's own, and no columns: have whoever writes the table "
            f"name them otherwise (`{own[0]} AS {own[0].lstrip('_')}` in the SQL of a pipeline)"
        )
    if version.takes_back and source.deletes is Deletes.REFUSE:
        raise FeedError(
            f"{what} deletes or updates rows, and this pipeline takes appended ones: say `deletes: tombstone` and "
            "`keys`, or go on after it with `moldau pipeline reset`"
        )
    missing = [name for name in source.keys if name.lower() not in seen]
    if missing:
        raise FeedError(f"{what} has no column {', '.join(missing)}, which `keys` names")
    told = "" if known is None else difference(known, version.schema)
    if told and source.schema_change is SchemaChange.FAIL:
        raise FeedError(f"{what} changes the columns ({told}): say `schema_change: follow` to go on with them")
