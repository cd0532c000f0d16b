"""What a broker remembers of batches that are to come again: told once each, forgotten in time, and never too many."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.replicas import sequence_gaps
from moldau.broker.replicas.sequence_gaps import REMEMBERED_MS, ProducedPartition, SequenceGaps
from moldau.model import Code
from moldau.wire.batch import BatchHeader, build, read_header
from tests.packages.manual_clock import ManualClock

HERE = ProducedPartition("t", b"", 0)
LAST = 0x7FFFFFFF


def header(sequence: int, producer_id: int = 1) -> BatchHeader:
    return read_header(build([(1, None, b"v", [])], producer_id=producer_id, producer_epoch=0, base_sequence=sequence))


def test_each_batch_behind_is_told_once_until_what_it_lacks_comes_again() -> None:
    kept = SequenceGaps(ManualClock())
    kept.refused(HERE, header(3), Code.KAFKA_STORAGE_ERROR)
    assert [kept.code_behind_gap(HERE, header(n)) for n in (3, 2)] == [None, None], (
        "nothing ahead of these was sent back"
    )
    assert [kept.code_behind_gap(HERE, header(n)) for n in (4, 5, 4, 5)] == [Code.KAFKA_STORAGE_ERROR] * 2 + [None] * 2
    kept.refused(HERE, header(3), Code.NOT_LEADER_OR_FOLLOWER)
    assert kept.code_behind_gap(HERE, header(4)) is Code.NOT_LEADER_OR_FOLLOWER, "it came again, and was refused again"
    kept.appended(HERE, header(2))
    assert kept
    kept.appended(HERE, header(3))
    assert not kept


def test_what_is_behind_one_that_was_refused_for_itself_is_told_again() -> None:
    """Its producer has both on the same connection: the second without the first is out of order (seed 184)."""
    kept = SequenceGaps(ManualClock())
    kept.refused(HERE, header(3), Code.NOT_LEADER_OR_FOLLOWER)
    assert [kept.code_behind_gap(HERE, header(n)) for n in (4, 5)] == [Code.NOT_LEADER_OR_FOLLOWER] * 2
    kept.refused(HERE, header(4), Code.NOT_LEADER_OR_FOLLOWER)
    assert [kept.code_behind_gap(HERE, header(n)) for n in (4, 5, 5)] == [None, Code.NOT_LEADER_OR_FOLLOWER, None]


def test_sequence_numbers_begin_anew_behind_the_last() -> None:
    kept = SequenceGaps(ManualClock())
    kept.refused(HERE, header(LAST), Code.NOT_LEADER_OR_FOLLOWER)
    assert kept.code_behind_gap(HERE, header(0)) is Code.NOT_LEADER_OR_FOLLOWER
    assert kept.code_behind_gap(HERE, header(LAST)) is None


def test_what_did_not_come_again_is_forgotten_in_time() -> None:
    clock = ManualClock()
    kept = SequenceGaps(clock)
    for producer_id in range(100):
        kept.refused(HERE, header(0, producer_id), Code.NOT_LEADER_OR_FOLLOWER)
    clock.now_ms += REMEMBERED_MS + 1
    for producer_id in range(200, 300):
        kept.refused(HERE, header(0, producer_id), Code.NOT_LEADER_OR_FOLLOWER)
    assert len(kept) == 100
    assert kept.code_behind_gap(HERE, header(1, 5)) is None


def test_no_more_than_so_many_are_remembered_and_none_is_told_twice_for_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence_gaps, "REMEMBERED_MAX", 10)
    kept = SequenceGaps(ManualClock())
    assert sum(kept.refuse_once_on_new_leader(HERE, header(4, producer_id)) for producer_id in range(15)) == 10
    assert not any(kept.refuse_once_on_new_leader(HERE, header(4, producer_id)) for producer_id in range(15)), (
        "else they never got in"
    )
    for producer_id in range(15):
        kept.refused(HERE, header(0, producer_id), Code.NOT_LEADER_OR_FOLLOWER)
    assert len(kept) == 10


@given(st.lists(st.tuples(st.sampled_from(["note", "behind", "meets", "appended"]), st.integers(0, 6)), max_size=40))
def test_unless_one_ahead_of_it_is_refused_again_no_batch_is_told_twice(steps: list[tuple[str, int]]) -> None:
    kept, told = SequenceGaps(ManualClock()), set[int]()
    for step, sequence in steps:
        if step == "note":
            kept.refused(HERE, header(sequence), Code.NOT_LEADER_OR_FOLLOWER)
            told = {one for one in told if one < sequence}
        elif step == "appended":
            kept.appended(HERE, header(sequence))
            told.clear()
        elif step == "behind" and kept.code_behind_gap(HERE, header(sequence)) is not None:
            assert sequence not in told
            told.add(sequence)
        elif step == "meets" and kept.refuse_once_on_new_leader(HERE, header(sequence)):
            assert sequence not in told
            told = {one for one in told if one < sequence} | {sequence}
