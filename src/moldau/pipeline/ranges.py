"""Which offsets a pipeline has read or will read, which of a backfill it has not, and how a range is cut into batches.

Pure: offsets of partitions, half open. Read next: backfill.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from moldau.model import NO_UUID, TopicPartition
from moldau.pipeline.books import BATCH, REPLAY, BookLine
from moldau.spark.losses import Loss, LossKind
from moldau.spark.offsets import Positions, decode, recreated

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


def taken(lines: Iterable[BookLine], query: str | None, now: Mapping[str, bytes] | None = None) -> list[Span]:
    """What the lines of the books read; of ``query``, that of the checkpoint that goes on, everything after it too.

    Of a topic that was made anew, as topic ids tell (``now`` has those of the cluster), only what was read since: the
    same offsets name other records now."""
    found: dict[tuple[str, TopicPartition], Span] = {}
    single: list[Span] = []
    ids: dict[str, bytes] = {}
    for line in lines:
        if line.kind == REPLAY or line.end is None:
            continue
        begin, end = _positions(line.start), _positions(line.end)
        for topic in _made_anew(ids, begin.topic_ids) | _made_anew(ids, end.topic_ids):
            found = {key: one for key, one in found.items() if one.source.topic != topic}
            single = [one for one in single if one.source.topic != topic]
        for source, last in end.offsets.items():
            span = Span(source, 0 if recreated(begin, end, source) else begin.offsets.get(source, 0), last)
            if line.kind != BATCH:
                single.append(span)
                continue
            before = found.get((line.query, source))
            found[line.query, source] = span if before is None else Span(source, before.start, last)
    anew = _made_anew(ids, now or {})
    goes_on = [
        Span(source, 0 if source.topic in anew else one.start, FOREVER)
        for (of, source), one in found.items()
        if of == query
    ]
    before_now = [*single, *(one for (of, _), one in found.items() if of != query)]
    return [*(one for one in before_now if one.source.topic not in anew), *goes_on]


def _made_anew(known: dict[str, bytes], now: Mapping[str, bytes]) -> set[str]:
    """The topics that have another id than is known of them; what is known is brought up to date."""
    told = {topic: id for topic, id in now.items() if id != NO_UUID}
    anew = {topic for topic, id in told.items() if known.get(topic, id) != id}
    known.update(told)
    return anew


def first_gap(source: TopicPartition, begin: int, there: Sequence[Span]) -> Span:
    """What from ``begin`` on lies before the next of the spans that are there; empty where nothing does."""
    at = begin
    for one in sorted(one for one in there if one.source == source and one.size):
        if one.start > at:
            return Span(source, at, one.start)
        at = max(at, one.end)
    return Span(source, begin, begin)


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


def losses_in(
    spans: Sequence[Span], ids: Mapping[str, str], there: Positions, earliest: Positions, latest: Positions
) -> list[Loss]:
    """What of the spans is lost, where the topics had these ids (in hexadecimal) when they were planned, and the logs
    begin and end so now. A log that ends within a span has lost its end: when it was planned it had that."""
    found = list[Loss]()
    for one in spans:
        begin, end = (edge.offsets.get(one.source) for edge in (earliest, latest))
        if not one.size:
            continue
        if begin is None or end is None:
            found.append(Loss(LossKind.PARTITION_GONE, one.source, one.start, 0))
        elif _is_another(ids.get(one.source.topic), there.id_of(one.source)):
            found.append(Loss(LossKind.TOPIC_RECREATED, one.source, one.start, begin))
        else:
            if begin > one.start:
                found.append(Loss(LossKind.RECORDS_EXPIRED, one.source, one.start, min(begin, one.end)))
            if end < one.end:
                found.append(Loss(LossKind.LOG_WENT_BACK, one.source, one.end, end))
    return found


def _is_another(planned: str | None, now: bytes) -> bool:
    """Whether a topic has another id; unknown ids say no."""
    return planned not in (None, NO_UUID.hex(), now.hex()) and now != NO_UUID


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


def partitions(spans: Sequence[Span]) -> str:
    """The partitions of the spans, as ``assign``."""
    found: dict[str, list[int]] = {}
    for one in spans:
        found.setdefault(one.source.topic, []).append(one.source.partition)
    return json.dumps(found)


def _text(offsets: Mapping[TopicPartition, int]) -> str:
    found: dict[str, dict[str, int]] = {}
    for source in sorted(offsets):
        found.setdefault(source.topic, {})[str(source.partition)] = offsets[source]
    return json.dumps(found)


def _positions(texts: Sequence[str] | None) -> Positions:
    return decode(json.loads(texts[0])) if texts else Positions({}, {})
