"""The end of a partition never goes back, and a deposed leader that does not know it is no liar."""

from __future__ import annotations

from moldau.history.shown import WENT_BACK, Shown, went_back


def shown(*rows: tuple[int, int]) -> list[Shown]:
    """Answers of partition 0 one after the other: (leader epoch, offset)."""
    return [Shown(0, epoch, offset, 10 * n, 10 * n + 5) for n, (epoch, offset) in enumerate(rows)]


def kinds(rows: list[Shown]) -> list[str]:
    return [anomaly.kind for anomaly in went_back(rows)]


def test_an_end_that_grows_or_stays_raises_no_alarm() -> None:
    assert kinds(shown((1, 5), (1, 5), (2, 5), (2, 9), (4, 9))) == []


def test_an_end_below_one_that_was_shown_before_is_told() -> None:
    found = list(went_back(shown((1, 5), (1, 4))))
    assert [anomaly.kind for anomaly in found] == [WENT_BACK]
    assert found[0].law == "S7"
    assert "ended at 5 in leader epoch 1, then at 4 in epoch 1" in found[0].text


def test_a_new_leader_that_shows_less_than_the_old_one_is_told() -> None:
    assert kinds(shown((1, 5), (2, 4))) == [WENT_BACK]


def test_a_deposed_leader_may_show_less_than_its_successor_but_not_less_than_itself() -> None:
    assert kinds(shown((1, 5), (2, 9), (1, 5))) == []
    assert kinds(shown((1, 5), (2, 9), (1, 4))) == [WENT_BACK]


def test_answers_that_were_under_way_at_the_same_time_have_no_order() -> None:
    assert kinds([Shown(0, 1, 9, 0, 20), Shown(0, 1, 5, 10, 30)]) == []


def test_partitions_have_nothing_to_do_with_each_other() -> None:
    assert kinds([Shown(0, 1, 9, 0, 5), Shown(1, 1, 5, 10, 15)]) == []
