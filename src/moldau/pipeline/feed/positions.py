"""Where a pipeline is in a table's feed, how far behind, and what a run would do. Reads the table, writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from moldau.model.counted import counted
from moldau.pipeline.feed.changes import ChangeFeed, FeedError, Position
from moldau.pipeline.feed.checkpoint import FeedCheckpoint
from moldau.pipeline.feed.open import NoFeed, open_feed
from moldau.pipeline.feed.planning import BATCH_MOST, begin, check_table, plan
from moldau.pipeline.folder import PipelineFolder
from moldau.pipeline.reading import FEED_STARTS
from moldau.pipeline.spec import Pipeline


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One thing that a run would do; ``changes`` tells what is made or changed from what stays."""

    what: str
    how: str
    changes: bool


@dataclass(frozen=True, slots=True)
class FeedLag:
    """A table: the version that the pipeline took last (None: none), the newest, and how many are left."""

    table: str
    position: int | None
    end: int
    lag: int


def booked_position(folder: PipelineFolder) -> Position | None:
    """Where the newest batch of the books ended; None before the first of a checkpoint."""
    line = folder.books.newest_of_stream()
    if line is None or not line.end or not folder.has_checkpoint():
        return None
    if line.query != FeedCheckpoint(folder).query():
        return None
    return Position.from_json(line.end[0])


def next_position(pipeline: Pipeline, folder: PipelineFolder, feed: ChangeFeed) -> Position:
    """Where the next batch begins."""
    return booked_position(folder) or first_position(pipeline, folder, feed)


def first_position(pipeline: Pipeline, folder: PipelineFolder, feed: ChangeFeed) -> Position:
    """Where the first batch of a checkpoint begins."""
    start = folder.start() or pipeline.source.start
    kept = FeedCheckpoint(folder).latest() if start == "latest" else None
    return begin(feed, start) if kept is None else kept


def feed_lag(pipeline: Pipeline, folder: PipelineFolder) -> FeedLag:
    """How far behind the table the pipeline is. FeedError as in a run."""
    source = pipeline.source.feed
    assert source is not None, "a pipeline over a table"
    feed = open_feed(source)
    at = next_position(pipeline, folder, feed)
    check_table(feed, at)
    left = 1 + len(feed.following(at.at)) if at.whole else len(feed.following(at.done))
    return FeedLag(source.name, None if (at.done or 0) < 0 else at.done, feed.newest(), left)


def feed_steps(pipeline: Pipeline, folder: PipelineFolder) -> list[PlannedStep]:
    """What a run would do with the source."""
    found, booked = feed_lag(pipeline, folder), booked_position(folder)
    refused = _refused(pipeline, folder)
    start = folder.start() or pipeline.source.start
    whole = booked.whole if booked is not None else start == "snapshot"
    steps = [PlannedStep(f"source {found.table}", to_read(found, whole=whole), False), *refused]
    if booked is None:
        return [*steps, PlannedStep("checkpoint", f"a new one, which begins at {start}", True)]
    return [*steps, PlannedStep("checkpoint", f"goes on {goes_on(booked)}; 'start' has no effect", False)]


def _refused(pipeline: Pipeline, folder: PipelineFolder) -> list[PlannedStep]:
    """Why a run would be refused at the next batch, as far as the table's log tells."""
    source = pipeline.source.feed
    assert source is not None, "a pipeline over a table"
    feed, noted = open_feed(source), FeedCheckpoint(folder).newest()
    try:
        at = next_position(pipeline, folder, feed)
        plan(feed, source, at, None if noted is None else noted.schema, BATCH_MOST)
    except FeedError as error:
        return [PlannedStep(f"source {source.name}", f"a run is refused: {error}", True)]
    return []


def to_read(found: FeedLag, *, whole: bool) -> str:
    """What is left to read; ``whole``: of the first version the table as it was then."""
    if not found.lag:
        return f"nothing to read: version {found.end} is the newest"
    if not whole:
        return f"{counted(found.lag, 'version')} to read, up to version {found.end}"
    if found.lag == 1:
        return f"the table to read, as it is in version {found.end}"
    return f"the table to read, as it was, then {counted(found.lag - 1, 'version')}, up to version {found.end}"


def goes_on(at: Position) -> str:
    """Behind what a pipeline goes on."""
    if at.at is not None:
        return f"after row {at.row:,} of " + ("the table as it was in " if at.whole else "") + f"version {at.at}"
    return "before the first version" if at.done is None or at.done < 0 else f"after version {at.done}"


def check_start(pipeline: Pipeline, start: str) -> Position:
    """Where a pipeline over a table begins there. NoFeed when it cannot; FeedError when there is no such version."""
    source = pipeline.source.feed
    assert source is not None, "a pipeline over a table"
    if start not in FEED_STARTS and not start.isdecimal():
        raise NoFeed(f"--to {start}: of a table it is {', '.join(FEED_STARTS)} or a version's number")
    return begin(open_feed(source), start)


def reset_cost(pipeline: Pipeline, folder: PipelineFolder, begins: Position) -> str:
    """What beginning there comes to, a clause; empty in a pipeline that has written nothing."""
    source, at = pipeline.source.feed, booked_position(folder)
    assert source is not None, "a pipeline over a table"
    if at is None:
        return ""
    feed = open_feed(source)
    return cost(at, begins, feed.following(feed.first()) if source.format == "iceberg" else None)


def cost(at: Position, begins: Position, line: Sequence[int] | None = None) -> str:
    """What going on elsewhere than at ``at`` comes to, a clause. ``line``: the versions that are there, oldest first,
    where their numbers do not tell which is older."""
    stay = counted(at.rows, "row that was written stays", "rows that were written stay")
    if at.table != begins.table or not at.rows:
        return f": {stay}"
    reached, first = (_nth(one, line) for one in (at.done if at.at is None else at.at, begins.done))
    if not begins.whole and (reached is None or first is None):
        return (
            f": {stay}; the version that they end with is gone, so what is read again "
            "of them, or left out, is not known"
        )
    if begins.whole or reached is None or first is None or first < reached:
        return f": {stay}, and what is read again of them stands in the topics twice"
    return f": {stay}, {counted(first - reached, 'version')} would be left out"


def _nth(done: int | None, line: Sequence[int] | None) -> int | None:
    """Which version was taken last, as a number that grows from version to version; None when it is not in ``line``."""
    if line is None:
        return -1 if done is None else done
    if done is None:
        return -1
    if abs(done) not in line:
        return None
    return line.index(abs(done)) - (done < 0)  # the negative id is what was done before that snapshot
