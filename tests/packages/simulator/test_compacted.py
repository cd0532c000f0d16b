"""What one compaction may do to a log is judged from outside, and whole clusters compact while they break."""

from __future__ import annotations

import pytest

from moldau.simulator.laws.compacted import CompactionSight, LogEntry, check, wanted
from moldau.simulator.laws.decisions import Decisions
from moldau.simulator.planes import plan_of
from moldau.simulator.run import simulate
from moldau.simulator.scenes import COMPACTION, DAMAGED, QUORUM, ZOOKEEPER

NOW_MS, RETENTION_MS, HIGH = 10_000, 1_000, 5


def entry(offset: int, key: str, *, tombstone: bool = False) -> LogEntry:
    return LogEntry(offset, offset, 1, offset, key.encode(), tombstone)


def of(
    *held: LogEntry, horizons: dict[int, int | None] | None = None, bounds: tuple[int, int] = (0, 7)
) -> CompactionSight:
    found = {one.base: one for one in held}
    return CompactionSight(found, dict.fromkeys(found) | (horizons or {}), bounds, Decisions())


A0, B1, A2, C3, B5 = entry(0, "a"), entry(1, "b"), entry(2, "a"), entry(3, "c", tombstone=True), entry(5, "b")
BEFORE = of(A0, B1, A2, C3, B5)


def laws(before: CompactionSight, after: CompactionSight) -> list[str]:
    return [law.partition(":")[0] for law in check(before, after, NOW_MS, RETENTION_MS, HIGH)]


def test_the_newest_of_each_key_is_enough() -> None:
    assert laws(BEFORE, of(B1, A2, C3, B5)) == []
    assert laws(BEFORE, of(B1, A2, C3, B5, horizons={3: NOW_MS + RETENTION_MS})) == []
    assert laws(BEFORE, BEFORE) == []


@pytest.mark.parametrize(
    ("after", "law"),
    [
        (of(A0, B1, C3, B5), "S5"),  # the newest of a
        (of(A2, C3, B5), "S5"),  # what is not committed replaces b
        (of(B1, A2, C3), "S5"),  # what is not committed is taken
        (of(B1, A2, B5), "S5"),  # a tombstone that was never given its time
        (of(B1, A2, C3, B5, horizons={3: NOW_MS}), "S5"),  # one that may go too soon
        (of(B1, entry(2, "c"), C3, B5), "S6"),
        (of(B1, A2, C3, B5, entry(6, "a")), "S6"),
        (of(B1, A2, C3, B5, bounds=(1, 7)), "S6"),
    ],
)
def test_what_a_compaction_may_not_do_is_seen(after: CompactionSight, law: str) -> None:
    assert law in laws(BEFORE, after)


@pytest.mark.parametrize(("horizon_ms", "broken"), [(NOW_MS, []), (NOW_MS + 1, ["S5"])])
def test_a_tombstone_goes_when_its_time_is_over(horizon_ms: int, broken: list[str]) -> None:
    before = of(A0, B1, A2, C3, B5, horizons={3: horizon_ms})
    assert laws(before, of(B1, A2, B5)) == broken


def test_tombstones_are_wanted_only_where_they_stay() -> None:
    last = {b"a": A2, b"b": B1, b"c": C3}
    assert wanted([A0, B1, A2, C3], last, tombstones=True) == [B1, A2, C3]
    assert wanted([A0, B1, A2, C3], last, tombstones=False) == [B1, A2]


@pytest.mark.parametrize("plane", [QUORUM, ZOOKEEPER])
def test_some_plans_have_a_compacted_topic_and_those_of_older_seeds_have_none(plane: str) -> None:
    keyed = [plan_of(seed, None, plane) for seed in range(100)]
    some = [plan for plan in keyed if any(topic.keys for topic in plan.topics)]
    assert 5 <= len(some) <= 30
    assert 3 <= sum(bool(plan.group_log) for plan in keyed) <= 25
    transacted = [plan for plan in keyed if plan.transactions is not None and plan.transactions.keys]
    busy = [plan for plan in keyed if plan in some or plan in transacted or plan.group_log]
    assert [plan for plan in keyed if COMPACTION in plan.faults] == busy
    older = [plan_of(seed, None, plane, buggify=False) for seed in range(100)]
    assert not any(plan.group_log or any(topic.keys for topic in plan.topics) for plan in older)


def test_brokers_that_die_amid_compactions_lose_no_key() -> None:
    outcome = simulate(1, COMPACTION)
    assert outcome.verdict == "passed", "\n".join([*outcome.trace, *outcome.broken, *outcome.doubts])
    assert {"a log was compacted", "a compaction was cut short"} <= outcome.coverage


@pytest.mark.parametrize("plane", [QUORUM, ZOOKEEPER])
def test_a_damaged_segment_under_a_running_cleaner_ends_nobody(plane: str) -> None:
    outcome = simulate(1, DAMAGED, plane)
    assert outcome.verdict == "passed", "\n".join([*outcome.trace, *outcome.broken, *outcome.doubts])
    assert outcome.faults["damaged-segment"] > 0
