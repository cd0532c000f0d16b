"""Which offsets a pipeline has read or will read, which of a backfill it has not, and how a range is cut into batches.

Pure: offsets of partitions, half open. Read next: backfill.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from moldau.model import TopicPartition
from moldau.pipeline.books import BATCH, REPLAY, BookLine
from moldau.spark.offsets import decode

FOREVER = 1 << 63
"""The end of what the stream itself will read: everything from its position on."""


class Span(NamedTuple):
    """Offsets [start, end) of one partition."""

    source: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        return max(0, self.end - self.start)


def taken(lines: Iterable[BookLine], query: str | None) -> list[Span]:
    """What the lines of the books read; of ``query``, that of the checkpoint that goes on, everything after it too."""
    found: dict[tuple[str, TopicPartition], Span] = {}
    single: list[Span] = []
    for line in lines:
        if line.kind == REPLAY or line.end is None:
            continue
        begin, end = _offsets(line.start), _offsets(line.end)
        for source, last in end.items():
            span = Span(source, begin.get(source, 0), last)
            if line.kind != BATCH:
                single.append(span)
                continue
            before = found.get((line.query, source))
            found[line.query, source] = span if before is None else Span(source, before.start, last)
    return single + [
        Span(source, one.start, FOREVER if of == query else one.end) for (of, source), one in found.items()
    ]


def overlap(wanted: Sequence[Span], there: Sequence[Span]) -> list[Span]:
    """The parts of the wanted spans that are there already, each once however often it was read."""
    found = []
    for one in wanted:
        at = one.start
        for other in sorted(other for other in there if other.source == one.source):
            span = Span(one.source, max(at, other.start), min(one.end, other.end))
            if span.size:
                found.append(span)
                at = span.end
    return found


def beyond_the_end(begin: Mapping[TopicPartition, int], high: Mapping[TopicPartition, int]) -> str:
    """The partitions of which a position is after the end of the log, in words; an empty text when there is none."""
    past = [one for one in sorted(begin) if one in high and begin[one] > high[one]]
    return ", ".join(f"{one} ends at {high[one]:,}" for one in past)


def pieces(wanted: Sequence[Span], most: int) -> list[list[Span]]:
    """The spans cut into batches of about ``most`` offsets, each with its share of every partition, in order."""
    total = sum(one.size for one in wanted)
    count = -(-total // most)
    return [
        [Span(one.source, one.start + one.size * at // count, one.start + one.size * (at + 1) // count)
         for one in wanted]
        for at in range(count)
    ]  # fmt: skip


def starts(spans: Sequence[Span]) -> str:
    """Where the spans begin, as ``startingOffsets``."""
    return _text({one.source: one.start for one in spans})


def ends(spans: Sequence[Span]) -> str:
    """Where the spans end, as ``endingOffsets``."""
    return _text({one.source: one.end for one in spans})


def _text(offsets: Mapping[TopicPartition, int]) -> str:
    found: dict[str, dict[str, int]] = {}
    for source in sorted(offsets):
        found.setdefault(source.topic, {})[str(source.partition)] = offsets[source]
    return json.dumps(found)


def _offsets(texts: Sequence[str] | None) -> Mapping[TopicPartition, int]:
    return {} if not texts else decode(json.loads(texts[0])).offsets
