"""Readers read from followers in their rack while nodes die: they are given what is committed, and nothing else."""

from __future__ import annotations

from typing import Any, cast

import pytest

from moldau.client.consumer import Chunk
from moldau.client.reading import READ_COMMITTED, READ_UNCOMMITTED, Fetched
from moldau.image import Partition
from moldau.model import Code, TopicPartition
from moldau.replication.roles import Role
from moldau.simulator.laws.data import DataLaws
from moldau.simulator.laws.reads import FROM_A_FOLLOWER, ReadLaws
from moldau.simulator.planes import plan_of
from moldau.simulator.run import simulate
from moldau.simulator.scenes import FOLLOWERS, QUORUM, ZOOKEEPER
from tests.packages.simulator.doubles import KEY, Machine, Observer, Replica, partition

WHERE = TopicPartition("safe", 0)
PLANES = pytest.mark.parametrize("plane", [QUORUM, ZOOKEEPER])


@PLANES
def test_readers_are_given_what_is_committed_by_followers_too(plane: str) -> None:
    outcome = simulate(2, FOLLOWERS, plane)
    again = f"reproduce: moldau sim --scene {FOLLOWERS} --mode {plane} --seed 2"
    assert outcome.verdict == "passed", "\n".join([*outcome.trace, *outcome.broken, *outcome.doubts, again])
    assert FROM_A_FOLLOWER in outcome.coverage


@PLANES
def test_some_plans_have_racks_and_those_of_older_seeds_have_none(plane: str) -> None:
    plans = [plan_of(seed, None, plane) for seed in range(100)]
    assert 10 <= sum(bool(plan.racks) for plan in plans) <= 35
    always = [plan_of(seed, FOLLOWERS, plane) for seed in range(100)]
    assert all(set(plan.racks) == set(plan.brokers) and 2 <= len(plan.rack_names) <= 3 for plan in always)
    assert not any(plan_of(seed, None, plane, buggify=False).racks for seed in range(100))


class Watermarks:
    """What replicas have had; ``after``: once they are looked at again."""

    def __init__(self, before: int, after: int) -> None:
        self.high, self._after = before, after

    def true_watermark(self, where: TopicPartition) -> int:
        assert where == WHERE
        return self.high

    def look(self) -> None:
        self.high = self._after


class Known:
    """An image in which n1 leads."""

    def partition(self, topic_id: bytes, number: int) -> Partition:
        assert (topic_id, number) == KEY
        return partition(1, 2)


def judged(
    up_to: int, high: int, stable: int, isolation: int = READ_UNCOMMITTED, true: int = 10, *, role: Role = Role.FOLLOWER
) -> tuple[list[str], set[str]]:
    """The laws that do not hold of an answer by n2, a follower, and the coverage points."""
    observer = cast("Any", Observer(topic="safe"))
    observer.image = Known()
    observer.key = lambda where: KEY
    observer.of[2] = Replica(WHERE, Machine(true, role=role))
    laws = ReadLaws(observer, cast("DataLaws", Watermarks(0, true)))
    laws.given("r", Chunk(WHERE, 0, Fetched(Code.NONE, memoryview(b""), up_to, high, stable), 2), isolation)
    return [law.partition(":")[0] for law in observer.cluster.broken], laws.coverage


def test_what_is_below_both_offsets_is_given() -> None:
    assert judged(10, 10, 4) == ([], {FROM_A_FOLLOWER})
    assert judged(4, 10, 4, READ_COMMITTED)[0] == []


def test_what_is_at_the_watermark_is_not() -> None:
    assert judged(11, 10, 10)[0] == ["S6"]


def test_what_is_at_the_last_stable_offset_is_not_given_to_who_reads_what_is_committed() -> None:
    assert judged(5, 10, 4, READ_COMMITTED)[0] == ["S17"]


def test_a_watermark_that_no_replica_has_had_is_seen() -> None:
    assert judged(9, 11, 11)[0] == ["S6"]
    assert judged(9, 11, 11, role=Role.REMOVED)[0] == [], "the partition was moved away before it was looked at"
