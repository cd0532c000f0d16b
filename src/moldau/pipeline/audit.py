"""What contradicts in the books of a pipeline: lines among each other, and with the checkpoint beside them.

A line was checked before it was written; this finds what was changed, removed or added since. How many records lie
between two offsets the books cannot know (compaction and transactions leave gaps), only that there are not more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from moldau.model import TopicPartition
from moldau.pipeline.books import BATCH, REPLAY, Line, NotBalanced, Totals, added, check
from moldau.pipeline.folder import Folder
from moldau.spark.offsets import decode
from moldau.spark.tables.ledger import Place, place


def problems(folder: Folder, *, whole: bool = False) -> list[str]:
    """What contradicts, a sentence each: in the newest line of the books, or in the ``whole`` of them."""
    last = folder.books.last()
    found = folder.contradictions()
    if last is None:
        return found
    lines = folder.books.newest(last.sequence + 1 if whole else 2)
    before = None if len(lines) == last.sequence + 1 else lines[0]
    return found + in_lines(lines if before is None else lines[1:], before)


def in_lines(lines: Sequence[Line], before: Line | None = None) -> list[str]:
    """What contradicts in lines that follow each other, the first of them the line ``before`` (None: nothing)."""
    found = list[str]()
    stream: Line | None = before if before is not None and before.kind == BATCH else None
    totals = Totals() if before is None else before.totals
    for line in lines:
        where = f"line {line.sequence} of the books"
        found += [f"{where}: {text}" for text in (*_alone(line), *_follows(line, stream), *_sums(line, totals))]
        totals = line.totals
        stream = line if line.kind == BATCH else stream
    return found


def gaps(lines: Sequence[Line]) -> int:
    """How many offsets the batches went over in which they found no record."""
    return sum(size - line.read for line in lines if (size := span(line)) is not None and size > line.read)


def span(line: Line) -> int | None:
    """How many offsets a batch went over; None where the line does not say."""
    if line.kind == REPLAY or not line.start or not line.end:
        return None
    begin, end = _offsets(line.start), _offsets(line.end)
    if begin is None or end is None:
        return None
    return sum(max(0, last - begin.get(source, 0)) for source, last in end.items())


def _offsets(texts: Sequence[str]) -> Mapping[TopicPartition, int] | None:
    try:
        return decode(json.loads(texts[0])).offsets
    except (ValueError, TypeError, AttributeError):
        return None


def _alone(line: Line) -> list[str]:
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
        found.append(f"{line.read:,} records were read, of {size:,} offsets")
    return found


def _follows(line: Line, stream: Line | None) -> list[str]:
    """Whether a batch of the stream goes on where the one before it ended."""
    if line.kind != BATCH or stream is None or stream.query != line.query:
        return []
    if line.batch != stream.batch + 1:
        return [f"batch {line.batch} follows batch {stream.batch}"]
    if line.start and stream.end and place(line.start, stream.end) is not Place.EQUAL:
        return [f"batch {line.batch} does not begin where batch {stream.batch} ended"]
    return []


def _sums(line: Line, before: Totals) -> list[str]:
    """Whether the totals are those before, and what the line adds."""
    wanted, there = added(before, line, line.totals.newest_ms), line.totals
    if there.newest is None:  # books of before this was kept
        wanted = replace(wanted, newest=None)
    names = ("read", "replayed", "late", "rows_out", "topics", "sinks", "end", "newest", "dead")
    wrong = [name for name in names if _plain(getattr(wanted, name)) != _plain(getattr(there, name))]
    return [f"the totals of {', '.join(wrong)} are not the sum of the lines"] if wrong else []


def _plain(value: object) -> object:
    """Lists and tuples alike, as JSON has them."""
    return json.loads(json.dumps(value))
