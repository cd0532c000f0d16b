"""What contradicts in the books of a pipeline: lines among each other, and with the checkpoint beside them.

A line was checked before it was written; this finds what was changed, removed or added since. How many records lie
between two offsets the books cannot know (compaction and transactions leave gaps), only that there are not more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

from moldau.model import TopicPartition
from moldau.model.counted import counted
from moldau.pipeline.books import BATCH, REPLAY, BookLine, BookTotals, NotBalanced, added, check
from moldau.pipeline.folder import PipelineFolder
from moldau.spark.losses import Loss, LossKind, marked
from moldau.spark.offsets import Positions, decode, recreated
from moldau.spark.tables.ledger import OffsetOrder, place


def problems(folder: PipelineFolder, *, whole: bool = False) -> list[str]:
    """What contradicts, a sentence each: in the newest line of the books, or in the ``whole`` of them."""
    last, half = folder.books.last(), folder.cut_off_reset()
    found = [*([] if half is None else [half]), *folder.contradictions()]
    if last is None:
        return found
    lines = folder.books.newest(last.sequence + 1 if whole else 2)
    before = None if len(lines) == last.sequence + 1 else lines[0]
    return found + in_lines(lines if before is None else lines[1:], before)


def in_lines(lines: Sequence[BookLine], before: BookLine | None = None) -> list[str]:
    """What contradicts in lines that follow each other, the first of them the line ``before`` (None: nothing)."""
    found = list[str]()
    stream: BookLine | None = before if before is not None and before.kind == BATCH else None
    totals = BookTotals() if before is None else before.totals
    for line in lines:
        where = f"line {line.sequence} of the books"
        found += [f"{where}: {text}" for text in (*_alone(line), *_follows(line, stream), *_sums(line, totals))]
        totals = line.totals
        stream = line if line.kind == BATCH else stream
    return found


def gaps(lines: Sequence[BookLine]) -> int:
    """How many offsets the batches went over in which they found no record; what ``lost`` tells of is none of them."""
    found, before = 0, 0
    for line, losses in _with_losses(lines):
        if line.kind == BATCH:
            found -= min(before, sum(one.found - one.position for one in losses if one.kind in _OF_BEFORE))
        size = span(line)
        gap = 0 if size is None else max(0, size - line.read)
        gap -= min(gap, sum(one.found - one.position for one in losses if one.kind is LossKind.EXPIRED_IN_BATCH))
        found, before = found + gap, gap if line.kind == BATCH else before
    return found


def lost(lines: Sequence[BookLine]) -> list[str]:
    """What was lost before it was read, as the batches noted that stepped over it; a sentence each."""
    return [
        f"{_told(one)}: line {line.sequence} of the books" for line, losses in _with_losses(lines) for one in losses
    ]


def _with_losses(lines: Sequence[BookLine]) -> Iterator[tuple[BookLine, Sequence[Loss]]]:
    """Each line with what its batch left out. What a batch noted of itself is not told again by the one behind it."""
    noted = set[TopicPartition]()
    for line in lines:
        losses = [one for one in _losses(line) if one.kind not in _OF_BEFORE or one.partition not in noted]
        if line.kind == BATCH:
            noted = {one.partition for one in losses if one.kind is LossKind.EXPIRED_IN_BATCH}
        yield line, losses


def _told(loss: Loss) -> str:
    count = loss.found - loss.position
    if loss.kind in (*_OF_BEFORE, LossKind.EXPIRED_IN_BATCH):
        offsets, them = counted(count, "offset"), "it" if count == 1 else "them"
        return f"{loss.partition}: up to {offsets} expired while a batch read {them}"
    if loss.kind in (LossKind.RECORDS_EXPIRED, LossKind.NEW_PARTITION_CUT):
        were = counted(count, "offset was lost before it was read", "offsets were lost before they were read")
        return f"{loss.partition}: {were}; {loss.kind}"
    return f"{loss.partition}: what was not read before offset {loss.position:,} was reached is lost; {loss.kind}"


def span(line: BookLine) -> int | None:
    """How many offsets a batch went over; None where the line does not say."""
    ranges = ranges_of(line)
    return None if ranges is None else sum(end - start for start, end in ranges.values())


def ranges_of(line: BookLine) -> dict[TopicPartition, tuple[int, int]] | None:
    """The offsets that a batch went over, from the first on and before the second, by partition; None where the line
    does not say."""
    if line.kind == REPLAY or not line.start or not line.end:
        return None
    before, after = _positions(line.start), _positions(line.end)
    if before is None or after is None:
        return None
    begun = {one.partition: one.found for one in _losses(line) if one.kind in _BEGINS_AT_FOUND}
    found = {}
    for source, end in after.offsets.items():
        at = 0 if recreated(before, after, source) else before.offsets.get(source, 0)
        start = begun.get(source, at)
        found[source] = (start, max(start, end))
    return found


_OF_BEFORE = (LossKind.EXPIRED_MEANWHILE,)
"""What a batch notes of the one before it."""
_BEGINS_AT_FOUND = (
    LossKind.TOPIC_RECREATED, LossKind.LOG_DIVERGED, LossKind.RECORDS_EXPIRED, LossKind.NEW_PARTITION_CUT,
)  # fmt: skip
"""Behind these losses a batch is read from what was found, and not from the position."""


def _losses(line: BookLine) -> list[Loss]:
    """What the batch of a line left out."""
    return marked(line.end[0]) if line.kind != REPLAY and line.end else []


def _positions(texts: Sequence[str]) -> Positions | None:
    try:
        return decode(json.loads(texts[0]))
    except (ValueError, TypeError, AttributeError):
        return None


def _alone(line: BookLine) -> list[str]:
    """What contradicts in the line itself."""
    found = []
    if any(one.records < 0 for one in line.counts):
        found.append("a count is below zero")
    try:
        check(line, ())
    except NotBalanced as error:
        found.append(str(error))
    size = span(line)
    if size is not None and line.read > size:
        found.append(f"{counted(line.read, 'record was', 'records were')} read, of {counted(size, 'offset')}")
    return found


def _follows(line: BookLine, stream: BookLine | None) -> list[str]:
    """What is wrong where a batch of the stream does not go on where the one before it ended, in words."""
    if line.kind != BATCH or stream is None or stream.query != line.query:
        return []
    if line.batch != stream.batch + 1:
        return [f"batch {line.batch} follows batch {stream.batch}"]
    if line.start and stream.end and place(line.start, stream.end) is not OffsetOrder.EQUAL:
        return [f"batch {line.batch} does not begin where batch {stream.batch} ended"]
    return []


def _sums(line: BookLine, before: BookTotals) -> list[str]:
    """What is wrong where the totals are not those before and what the line adds, in words."""
    wanted, there = added(before, line, None), line.totals
    if there.newest is None:  # books of before this was kept
        wanted = replace(wanted, newest=None)
    names = ("read", "replayed", "late", "rows_out", "topics", "sinks", "end", "newest", "dead")
    wrong = [name for name in names if _plain(getattr(wanted, name)) != _plain(getattr(there, name))]
    return [f"the totals of {', '.join(wrong)} are not the sum of the lines"] if wrong else []


def _plain(value: object) -> object:
    """Lists and tuples alike, as JSON has them."""
    return json.loads(json.dumps(value))
