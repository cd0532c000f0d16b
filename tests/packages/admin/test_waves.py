"""Moves begin a few at once, in the plan's order, and a journal is what it was when it is read again."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.admin.reassignment import journal as journals
from moldau.admin.reassignment.journal import BadJournal, Busy, Journal
from moldau.admin.reassignment.waves import (
    CHANGING_DIRECTORY,
    FINISHED,
    GONE,
    OTHERWISE,
    UNKNOWN,
    WAITING,
    MoveLimits,
    ObservedPartition,
    next_moves,
    stand,
    with_directories,
)
from moldau.admin.throttles import RATES, ThrottlesSet
from moldau.client.admin import Reassignment
from moldau.model import TopicPartition


def at(number: int) -> TopicPartition:
    return TopicPartition("t", number)


REPLICAS = st.lists(st.integers(1, 5), min_size=1, max_size=3, unique=True)


@given(
    st.lists(st.tuples(REPLICAS, REPLICAS), min_size=1, max_size=20),
    st.integers(0, 10),
    st.integers(1, 5),
    st.integers(1, 5),
)
def test_limits_hold_and_whatever_waits_begins_at_last(
    plans: list[tuple[list[int], list[int]]], under_way: int, total: int, per_broker: int
) -> None:
    shown = {at(n): ObservedPartition(now, now[0]) for n, (now, _) in enumerate(plans)}
    goal = {at(n): wanted for n, (_, wanted) in enumerate(plans)}
    moving = {
        p: Reassignment(list(shown[p].replicas), sorted(set(goal[p]) - set(shown[p].replicas)), [])
        for p in list(goal)[:under_way]
    }
    waiting = [p for p in goal if p not in moving]
    begun = next_moves(waiting, goal, shown, moving, MoveLimits(total, per_broker))
    assert begun == [p for p in waiting if p in begun], "in the plan's order"
    copied = [p for p in begun if set(goal[p]) - set(shown[p].replicas)]
    busy: Counter[int] = Counter()
    for p in (*copied, *(p for p, one in moving.items() if one.adding)):
        busy.update({*(set(goal[p]) - set(shown[p].replicas)), shown[p].leader})
    assert not copied or len(copied) + sum(bool(one.adding) for one in moving.values()) <= total
    for p in copied:
        assert all(busy[b] <= per_broker for b in {*(set(goal[p]) - set(shown[p].replicas)), shown[p].leader})
    assert set(waiting) - set(copied) >= {p for p in waiting if p not in begun}
    if not any(one.adding for one in moving.values()):
        assert begun or not waiting, "something begins when nothing is under way"


def test_a_partition_is_where_it_was_where_it_shall_be_or_somewhere_else() -> None:
    goal = {at(n): [2] for n in range(5)}
    origin = {at(n): [1] for n in range(5)}
    shown = {
        at(0): ObservedPartition([1], 1),
        at(1): ObservedPartition([2], 2),
        at(2): ObservedPartition([1, 2], 1),
        at(3): ObservedPartition([3], 3),
    }
    assert list(stand(goal, origin, shown, {at(2)}).values()) == ["waiting", "done", "moving", "otherwise", "gone"]


def test_a_partition_that_was_called_off_may_have_its_replicas_in_another_order_and_is_moved_all_the_same() -> None:
    goal = {at(0): [1, 4], at(1): [1, 4]}
    origin = {at(0): [2, 1], at(1): [2, 1]}
    shown = {at(0): ObservedPartition([1, 2], 1), at(1): ObservedPartition([4, 1], 1)}
    assert set(stand(goal, origin, shown, ()).values()) == {"waiting"}
    assert next_moves([at(0)], origin, shown, {}, MoveLimits(1, 1)) == [at(0)]


def example() -> Journal:
    throttles = ThrottlesSet({"1": {RATES[0]: ["5"]}}, {"t": {"leader.replication.throttled.replicas": ["0:1"]}})
    return Journal("c", {at(0): [2]}, {at(0): [1]}, max_moves=3, rate=5, throttles=throttles)


def test_a_journal_is_read_as_it_was_written(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    assert journals.load(plan) is None
    journals.write(plan, example())
    assert journals.load(plan) == example()

    def pause(journal: Journal) -> None:
        journal.state = journals.PAUSED

    assert journals.update(plan, pause).state == journals.PAUSED
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json.journal"], "nothing is left beside it"


def test_half_a_journal_is_refused_at_every_length(tmp_path: Path) -> None:
    text = example().text()
    for length in range(0, len(text) - 2, 7):
        (tmp_path / "p.journal").write_text(text[:length])
        with pytest.raises(BadJournal, match=r"p\.journal: it is no journal"):
            journals.load(tmp_path / "p")
    for word in ('"version": 1', '"state": "running"'):
        (tmp_path / "p.journal").write_text(text.replace(word, word[:-2] + 'x"' if "state" in word else '"version": 2'))
        with pytest.raises(BadJournal, match="another version"):
            journals.load(tmp_path / "p")


def test_the_goal_and_the_origin_change_places_for_a_rollback() -> None:
    journal = example()
    assert (journal.goal, journal.origin) == (journal.plan, journal.before)
    journal.state = journals.ROLLING_BACK
    assert (journal.goal, journal.origin) == (journal.before, journal.plan)


def test_an_ended_plan_that_begins_again_takes_what_others_have_done_since_for_what_was_before() -> None:
    plan, before = {at(n): [2, 3] for n in range(3)}, {at(n): [1, 2] for n in range(3)}
    journal = Journal("c", plan, before, {(at(0), 1): "/a", (at(2), 1): "/a"})
    journal.begin_again(
        {at(0): [3, 2], at(1): [2, 1], at(2): [3, 4]}, {(at(0), 3): "/b", (at(1), 2): "/b", (at(2), 4): "/b"}
    )
    assert journal.before == {at(0): [1, 2], at(1): [1, 2], at(2): [3, 4]}
    assert journal.before_placed == {(at(0), 1): "/a", (at(2), 4): "/b"}
    assert Journal.read(journal.text()) == journal
    journal.begin_again({at(0): [1, 2]}, {(at(0), 1): "/b"})
    assert journal.before_placed[at(0), 1] == "/a", "what the plan has moved within a broker is not where it was before"
    journal.state = journals.ROLLED_BACK
    journal.begin_again({at(0): [1, 2]}, {(at(0), 1): "/b"})
    assert journal.before_placed[at(0), 1] == "/b", "taken back, it was moved by somebody else"


def test_a_journal_that_is_damaged_is_told_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "p.journal").mkdir()
    with pytest.raises(BadJournal, match=r"p\.journal: Is a directory; .*restore it, or remove it"):
        journals.load(tmp_path / "p")


def hold(path: str, busy: object) -> None:
    try:
        with journals.held(Path(path)):
            pass
    except Busy:
        busy.set()  # type: ignore[attr-defined]


def test_one_process_at_a_time_holds_a_plan(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text("{}")
    context = multiprocessing.get_context("fork")
    busy = context.Event()
    with journals.held(path):
        other = context.Process(target=hold, args=(str(path), busy))
        other.start()
        other.join(30)
    assert busy.is_set()
    with journals.held(path):
        pass


@pytest.mark.parametrize(
    ("state", "where", "told", "later"),
    [
        (FINISHED, None, FINISHED, FINISHED),
        (FINISHED, "moving", CHANGING_DIRECTORY, CHANGING_DIRECTORY),
        (FINISHED, "otherwise", WAITING, OTHERWISE),
        (FINISHED, "unknown", UNKNOWN, UNKNOWN),
        (WAITING, "otherwise", WAITING, WAITING),
        (OTHERWISE, "otherwise", OTHERWISE, OTHERWISE),
        (GONE, "unknown", GONE, GONE),
    ],
)
def test_a_partition_is_done_once_its_replicas_are_in_the_plan_s_log_directories(
    state: str, where: str | None, told: str, later: str
) -> None:
    """`status` said done, and `apply --dry-run` stay, of a replica that was to change its directory only; of a plan
    that has ended it said that it waits."""
    misplaced = {} if where is None else {at(0): where}
    assert with_directories({at(0): state}, misplaced, has_ended=False) == {at(0): told}
    assert with_directories({at(0): state}, misplaced, has_ended=True) == {at(0): later}
