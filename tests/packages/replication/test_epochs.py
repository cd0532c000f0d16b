"""The leader epoch table against worked examples and against a dumb twin that keeps one epoch per offset."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moldau.replication.epochs import EpochTable


def test_the_newest_epoch_ends_at_the_log_end_and_older_ones_where_the_next_begins() -> None:
    table = EpochTable([(2, 0), (4, 10), (7, 25)])
    assert table.end_offset_for(7, 40) == (7, 40)
    assert table.end_offset_for(4, 40) == (4, 25)
    assert table.end_offset_for(5, 40) == (4, 25)
    assert table.end_offset_for(3, 40) == (2, 10)


def test_an_epoch_newer_than_all_or_none_is_not_answered_and_an_older_one_ends_at_the_first_start() -> None:
    table = EpochTable([(2, 5), (4, 10)])
    assert table.end_offset_for(9, 40) == (-1, -1)
    assert table.end_offset_for(-1, 40) == (-1, -1)
    assert table.end_offset_for(1, 40) == (1, 5)
    assert EpochTable().end_offset_for(0, 0) == (-1, -1)


def test_an_epoch_that_wrote_nothing_gives_way_to_the_next_at_the_same_offset() -> None:
    table = EpochTable([(1, 0)])
    assert table.assign(2, 8)
    assert table.assign(3, 8)
    assert table.entries() == [(1, 0), (3, 8)]
    assert not table.assign(3, 20)


def test_truncation_from_the_end_drops_epochs_that_begin_there() -> None:
    table = EpochTable([(1, 0), (2, 8), (3, 20)])
    assert not table.truncate_from_end(21)
    assert table.truncate_from_end(20)
    assert table.entries() == [(1, 0), (2, 8)]
    assert table.truncate_from_end(0)
    assert table.entries() == []


def test_truncation_from_the_start_moves_the_covering_epoch() -> None:
    table = EpochTable([(1, 0), (2, 8), (3, 20)])
    assert table.truncate_from_start(10)
    assert table.entries() == [(2, 10), (3, 20)]
    assert table.truncate_from_start(20)
    assert table.entries() == [(3, 20)]
    assert table.truncate_from_start(90)
    assert table.entries() == [(3, 90)]
    assert not table.truncate_from_start(90)


def test_the_epoch_of_an_offset_and_the_start_of_an_epoch_are_found() -> None:
    table = EpochTable([(1, 5), (2, 8), (9, 20)])
    assert [table.epoch_at(o) for o in (0, 5, 7, 8, 19, 20, 99)] == [-1, 1, 1, 2, 2, 9, 9]
    assert (table.start_of(2), table.start_of(3), table.start_of(9)) == (8, -1, 20)


actions = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 3), st.integers(1, 4)),
        st.tuples(st.just("cut_end"), st.integers(0, 40), st.just(0)),
        st.tuples(st.just("cut_start"), st.integers(0, 40), st.just(0)),
    ),
    max_size=40,
)


@given(actions)
def test_the_table_equals_a_rebuild_from_the_log_after_any_history(history: list[tuple[str, int, int]]) -> None:
    """Law S14, against a log that is a list of epochs, one for each offset."""
    table, log, start, epoch = EpochTable(), [], 0, 0
    for kind, x, count in history:
        end = start + len(log)
        if kind == "append":
            epoch = max(epoch, table.latest, 0) + x
            table.assign(epoch, end)
            log += [epoch] * count
        elif kind == "cut_end" and start <= x < end:
            table.truncate_from_end(x)
            del log[x - start :]
        elif kind == "cut_start" and start <= x < end:
            table.truncate_from_start(x)
            del log[: x - start]
            start = x
        rebuilt = EpochTable()
        for offset, at in enumerate(log, start):
            rebuilt.assign(at, offset)
        assert table == rebuilt
        assert all(table.epoch_at(offset) == at for offset, at in enumerate(log, start))
        for asked in set(log):
            last = max(offset for offset, at in enumerate(log, start) if at <= asked)
            assert table.end_offset_for(asked, start + len(log)) == (asked, last + 1)
