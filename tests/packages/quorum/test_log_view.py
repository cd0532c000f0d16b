"""The light view of the log against its dumb twin: a list with the epoch of every record."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moldau.quorum.log_view import Behind, Diverging, EpochStart, LogView, OffsetAndEpoch, Valid

EPOCHS = st.lists(st.integers(1, 5), max_size=12).map(sorted)


def view(epochs: list[int]) -> LogView:
    log = LogView()
    for offset, epoch in enumerate(epochs):
        log = log.appended(offset + 1, epoch)
    return log


def common(left: list[int], right: list[int]) -> int:
    """Length of the common prefix: records with equal offset and epoch are equal (one writer an epoch, no gaps)."""
    length = 0
    while length < min(len(left), len(right)) and left[length] == right[length]:
        length += 1
    return length


@given(EPOCHS, st.integers(0, 12))
def test_the_end_of_an_epoch_is_where_a_newer_one_begins(epochs: list[int], epoch: int) -> None:
    below = [e for e in epochs if e <= epoch]
    assert view(epochs).end_of_epoch(epoch) == OffsetAndEpoch(len(below), below[-1] if below else 0)


@given(EPOCHS, st.integers(0, 12))
def test_truncation_is_the_log_that_never_had_the_rest(epochs: list[int], end: int) -> None:
    end = min(end, len(epochs))
    assert view(epochs).truncated(end) == view(epochs[:end])


@st.composite
def two_logs(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Two logs that elections can leave behind: an epoch has one writer, who begins on some log that is there."""
    written: list[list[int]] = [[]]
    for epoch in range(1, draw(st.integers(1, 5)) + 1):
        base = draw(st.sampled_from(written))
        kept = draw(st.integers(0, len(base)))
        written.append(base[:kept] + [epoch] * draw(st.integers(1, 4)))
    pick = st.sampled_from(written)
    leader, follower = draw(pick), draw(pick)
    return leader[: draw(st.integers(0, len(leader)))], follower[: draw(st.integers(0, len(follower)))]


@given(two_logs())
def test_fetch_and_truncate_end_at_the_common_prefix_and_never_cut_into_it(logs: tuple[list[int], list[int]]) -> None:
    """KIP-595's dance, whatever the two logs are."""
    leader, follower = logs
    shared = common(leader, follower)
    theirs = view(leader)
    for _ in range(20):
        log = view(follower)
        verdict = theirs.validate(log.last)
        if isinstance(verdict, Valid):
            break
        assert isinstance(verdict, Diverging)
        end = log.truncation_point(verdict.end)
        assert shared <= end < len(follower)
        follower = follower[:end]
    else:
        raise AssertionError("truncation does not end")
    assert theirs.epoch_at(len(follower)) == view(follower).last_epoch


@given(EPOCHS, st.integers(0, 12), st.integers(0, 12), st.integers(0, 6))
def test_below_the_start_only_a_snapshot_helps(epochs: list[int], start: int, offset: int, epoch: int) -> None:
    start = min(start, len(epochs))
    log = view(epochs)
    if start:
        log = log.with_snapshot(OffsetAndEpoch(start, epochs[start - 1])).trimmed(start)
    verdict = log.validate(OffsetAndEpoch(offset, epoch))
    if offset < start:
        assert verdict == Behind(OffsetAndEpoch(start, epochs[start - 1]))
    elif offset == start and start:
        assert isinstance(verdict, Valid) == (epoch == epochs[start - 1])
    elif offset > start:
        if offset <= len(epochs) and epochs[offset - 1] == epoch:
            assert isinstance(verdict, Valid)
        elif isinstance(verdict, Valid):
            assert epoch in epochs[start:]
            assert offset <= len([e for e in epochs if e <= epoch])


@given(EPOCHS, st.integers(1, 12))
def test_a_trimmed_log_still_knows_its_last_epoch(epochs: list[int], start: int) -> None:
    start = min(start, len(epochs))
    if start:
        log = view(epochs).with_snapshot(OffsetAndEpoch(start, epochs[start - 1])).trimmed(start)
        assert log.last == OffsetAndEpoch(len(epochs), epochs[-1])
        assert log.epoch_before_start == epochs[start - 1]
        for entry in log.epochs:
            assert epochs[entry.offset] == entry.epoch
            assert entry.offset >= start


def test_a_snapshot_that_replaces_all_leaves_an_empty_log_that_continues_it() -> None:
    log = view([1, 1, 2]).replaced_by(OffsetAndEpoch(10, 4))
    assert (log.start, log.end, log.flushed, log.last_epoch) == (10, 10, 10, 4)
    assert log.appended(12, 5).epochs == (EpochStart(5, 10),)
