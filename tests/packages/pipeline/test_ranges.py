"""Ranges of a backfill: what was read is known from the books, and batches cover a range once."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from moldau.model import TopicPartition, uuid_bytes
from moldau.pipeline.books import BACKFILL, BATCH, REPLAY, BookLine, BookTotals
from moldau.pipeline.ranges import (
    FOREVER,
    Span,
    beyond_the_end,
    ends,
    first_gap,
    losses_in,
    overlap,
    partitions,
    pieces,
    starts,
    taken,
)
from moldau.spark.losses import LossKind
from moldau.spark.offsets import Positions

ONE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


def line(kind: str, query: str, start: dict[str, int] | None, end: dict[str, int] | None) -> BookLine:
    def text(of: dict[str, int] | None) -> list[str] | None:
        return None if of is None else [json.dumps({"t": of, "#topicIds": {"t": "AAAAAAAAAAAAAAAAAAAAAQ"}})]

    return BookLine(
        sequence=0, kind=kind, batch=0, query=query, at_ms=0, took_ms=0, start=text(start), end=text(end), counts=[],
        drift=[], rows_out=0, late=0, sinks={}, dead=0, totals=BookTotals(),
    )  # fmt: skip


def test_what_was_read_is_known_for_each_checkpoint_and_the_last_one_goes_on_for_ever() -> None:
    lines = [
        line(BATCH, "a", {"0": 5}, {"0": 7}),
        line(BATCH, "a", {"0": 7}, {"0": 9, "1": 3}),
        line(REPLAY, "replay", None, None),
        line(BACKFILL, "backfill", {"0": 0, "1": 0}, {"0": 2, "1": 0}),
        line(BATCH, "b", {"0": 20, "1": 10}, {"0": 30, "1": 10}),
    ]
    found = taken(lines, "b")
    assert [one for one in found if one.size] == [
        Span(ONE, 0, 2), Span(ONE, 5, 9), Span(OTHER, 0, 3), Span(ONE, 20, FOREVER), Span(OTHER, 10, FOREVER),
    ]  # fmt: skip
    assert overlap([Span(ONE, 1, 21), Span(OTHER, 3, 10)], found) == [
        Span(ONE, 1, 2), Span(ONE, 5, 9), Span(ONE, 20, 21),
    ]  # fmt: skip
    assert overlap([Span(ONE, 2, 5)], found) == []
    twice = [Span(ONE, 0, 10), Span(ONE, 5, 12), Span(ONE, 6, 8), Span(OTHER, 0, 9)]
    assert overlap([Span(ONE, 1, 20)], twice) == [Span(ONE, 1, 10), Span(ONE, 10, 12)]
    assert taken([line(BATCH, "a", None, {"0": 4})], None) == [Span(ONE, 0, 4)], "where it began is not known"


SPANS = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1, max_size=5)


@given(SPANS, st.integers(1, 300))
def test_batches_cover_a_range_once_without_gaps(given_spans: list[tuple[int, int]], most: int) -> None:
    spans = [Span(TopicPartition("t", at), start, start + size) for at, (start, size) in enumerate(given_spans)]
    found = pieces(spans, most)
    assert all(sum(one.size for one in each) <= most + len(spans) for each in found)
    for at, span in enumerate(spans):
        parts = [each[at] for each in found]
        assert [one.start for one in parts[:1]] == ([span.start] if parts else [])
        assert all(before.end == after.start for before, after in pairwise(parts))
        assert sum(one.size for one in parts) == span.size


def test_spans_are_given_to_the_source_as_offsets_of_every_partition() -> None:
    spans = [Span(ONE, 1, 2), Span(OTHER, 3, 3)]
    assert (starts(spans), ends(spans)) == ('{"t": {"0": 1, "1": 3}}', '{"t": {"0": 2, "1": 3}}')


def test_a_position_after_the_end_of_a_log_is_named_with_that_end() -> None:
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    assert beyond_the_end({first: 5, second: 5}, {first: 60, second: 0}) == "t-1 ends at 0"
    assert beyond_the_end({first: 60}, {first: 60, second: 0}) == ""


def of_topic(id: str, text: str) -> list[str]:
    """Offsets of a topic with this id."""
    return [json.dumps({"t": json.loads(text), "#topicIds": {"t": id}})]


def test_what_was_read_of_a_topic_before_it_was_made_anew_is_not_read_of_the_new_one() -> None:
    """Also where the pipeline has not come to the new one: it reads that from its first record."""
    old, new = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"
    lines = [
        replace(line(BATCH, "a", {}, {}), start=of_topic(old, '{"0": 50}'), end=of_topic(old, '{"0": 90}')),
        line(BACKFILL, "backfill", {"0": 0}, {"0": 20}),
    ]
    assert taken(lines, "a", {"t": uuid_bytes(old)}) == [Span(ONE, 0, 20), Span(ONE, 50, FOREVER)]
    assert taken(lines, "a", {"t": uuid_bytes(new)}) == [Span(ONE, 0, FOREVER)]
    assert taken(lines, None, {"t": uuid_bytes(new)}) == []
    across = replace(line(BATCH, "a", {}, {}), start=of_topic(old, '{"0": 90}'), end=of_topic(new, '{"0": 7}'))
    assert taken([*lines, across], "a", {"t": uuid_bytes(new)}) == [Span(ONE, 0, FOREVER)]
    assert taken([*lines, across], None, {"t": uuid_bytes(new)}) == [Span(ONE, 0, 7)]
    assert taken([*lines, across], None) == [Span(ONE, 0, 7)]


def test_what_lies_before_the_next_offsets_that_were_read_is_a_gap() -> None:
    there = [Span(ONE, 10, FOREVER), Span(ONE, 0, 3), Span(ONE, 3, 4), Span(ONE, 6, 7), Span(OTHER, 5, 6)]
    assert first_gap(ONE, 0, there) == Span(ONE, 4, 6)
    assert first_gap(ONE, 2, there) == Span(ONE, 4, 6)
    assert first_gap(ONE, 6, there) == Span(ONE, 7, 10)
    assert first_gap(ONE, 12, there).size == 0, "all of it was read, or will be"
    assert first_gap(OTHER, 7, there).size == 0, "nothing says where that ends"


def test_the_partitions_of_spans_are_named_whether_there_is_anything_in_them_or_not() -> None:
    assert partitions([Span(ONE, 1, 2), Span(OTHER, 3, 3)]) == '{"t": [0, 1]}'


def test_what_of_a_range_is_lost_since_it_was_planned_is_told_by_kind() -> None:
    old, new, none = b"1" * 16, b"2" * 16, bytes(16)

    def lost(id: bytes, begin: int, end: int) -> list[tuple[LossKind, int, int]]:
        at = (Positions({ONE: where}, {"t": id}) for where in (begin, end))
        found = losses_in([Span(ONE, 10, 20), Span(ONE, 7, 7)], {"t": old.hex()}, Positions({}, {"t": id}), *at)
        return [(one.kind, one.position, one.found) for one in found]

    assert lost(old, 0, 20) == lost(none, 10, 30) == []
    assert lost(new, 0, 30) == [(LossKind.TOPIC_RECREATED, 10, 0)]
    assert lost(old, 15, 30) == [(LossKind.RECORDS_EXPIRED, 10, 15)]
    assert lost(old, 90, 99) == [(LossKind.RECORDS_EXPIRED, 10, 20)]
    assert lost(old, 0, 15) == [(LossKind.LOG_WENT_BACK, 20, 15)]
    nowhere = Positions({}, {"t": old})
    assert losses_in([Span(ONE, 1, 2)], {}, nowhere, nowhere, nowhere)[0].kind is LossKind.PARTITION_GONE
