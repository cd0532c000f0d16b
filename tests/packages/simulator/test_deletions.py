"""A client deletes records while nodes die: what was deleted stays so, what was not is there, and each is answered."""

from __future__ import annotations

import pytest

from moldau.history.rows import OK, Send
from moldau.model import TopicPartition
from moldau.simulator.laws.deletions import DeletionLaws, unkept
from moldau.simulator.plan import TopicPlan
from moldau.simulator.plan_deletions import TOPIC
from moldau.simulator.planes import plan_of
from moldau.simulator.run import simulate
from moldau.simulator.scenes import DELETIONS, QUORUM, ZOOKEEPER
from tests.packages.simulator.doubles import Directory, Machine, Observer, Replica, ReplicaLog, Starts, partition

WHERE = TopicPartition(TOPIC, 0)
PLANES = pytest.mark.parametrize("plane", [QUORUM, ZOOKEEPER])


@PLANES
@pytest.mark.parametrize("seed", [1, 4])
def test_what_was_deleted_stays_so_and_the_rest_is_there(seed: int, plane: str) -> None:
    outcome = simulate(seed, DELETIONS, plane)
    again = f"reproduce: moldau sim --scene {DELETIONS} --mode {plane} --seed {seed}"
    assert outcome.verdict == "passed", "\n".join([*outcome.trace, *outcome.broken, *outcome.doubts, again])


@PLANES
def test_half_of_the_plans_let_records_expire_and_those_of_other_runs_delete_none(plane: str) -> None:
    plans = [plan_of(seed, DELETIONS, plane) for seed in range(60)]
    assert all(plan.deletions is not None and "kill" in plan.faults for plan in plans)
    assert 20 <= sum(plan.expires_ms > 0 for plan in plans) <= 40
    assert not any(plan_of(seed, None, plane).deletions for seed in range(60))


class Cluster:
    """Two replicas of one partition, n1 leads; ``told`` has the laws that do not hold."""

    def __init__(self, *, expires: bool = False) -> None:
        self.observer = Observer(state=partition(1, 2, leader_epoch=3), topic=TOPIC)
        self.on_file = {1: 0, 2: 0}
        self.of = self.observer.of
        for id in (1, 2):
            self.starts(id, 0)
        topic = TopicPlan(name=TOPIC, partitions=1, replication_factor=2, configs={})
        self.laws = DeletionLaws(self.observer, topic, expires=expires)
        self.laws.look()

    def starts(self, id: int, start: int) -> None:
        """A new life, whose log begins there."""
        log = ReplicaLog(start, start, Directory(starts=Starts({WHERE: self.on_file[id]})))
        self.of[id] = Replica(WHERE, Machine(leader_epoch=3), log)

    def led_by(self, id: int) -> None:
        assert self.observer.state is not None
        self.observer.state = self.observer.state._replace(leader=id)

    def moves(self, start: int, *ids: int) -> None:
        for id in ids:
            self.of[id].log.log_start_offset = start

    def deleted(self, offset: int) -> None:
        """All have deleted, and it is answered."""
        self.moves(offset, 1, 2)
        self.laws.answered(WHERE, offset, offset)

    def laws_broken(self) -> list[str]:
        self.laws.look()
        return [text.partition(":")[0] for text in self.observer.cluster.broken]


def test_what_all_have_deleted_is_deleted() -> None:
    cluster = Cluster()
    cluster.deleted(7)
    assert cluster.laws_broken() == []
    assert cluster.laws.at_rest([]) == []


def test_an_answer_before_a_replica_in_sync_has_deleted_is_seen() -> None:
    cluster = Cluster()
    cluster.moves(7, 1)
    cluster.laws.answered(WHERE, 7, 7)
    assert cluster.laws_broken() == ["S21"]
    assert cluster.laws.lagging(WHERE) == "n2 has deleted-0 from 0 on, not from 7 on"


def test_an_answer_below_what_was_asked_for_is_seen() -> None:
    cluster = Cluster()
    cluster.moves(7, 1, 2)
    cluster.laws.answered(WHERE, 7, 6)
    assert cluster.laws_broken() == ["S21"]


def test_a_leader_that_a_crash_gave_its_records_back_is_seen_where_another_has_deleted_them() -> None:
    cluster = Cluster()
    cluster.deleted(7)
    cluster.starts(2, 0)
    assert cluster.laws_broken() == []
    cluster.led_by(2)
    assert cluster.laws_broken() == ["S21"]


def test_crashes_of_all_may_take_a_deletion_back_that_is_on_no_disk() -> None:
    cluster = Cluster()
    cluster.deleted(7)
    del cluster.of[1], cluster.of[2]
    assert cluster.laws_broken() == []
    cluster.starts(1, 0)
    assert cluster.laws_broken() == []
    assert cluster.laws.coverage == {"crashes took a deletion back"}


def test_a_start_that_does_not_go_by_what_is_on_its_disk_is_seen() -> None:
    cluster = Cluster()
    cluster.on_file = {1: 7, 2: 7}
    for id in (1, 2):
        cluster.starts(id, 0)
    cluster.deleted(7)
    assert cluster.laws_broken() == []
    del cluster.of[1], cluster.of[2]
    assert cluster.laws_broken() == []
    cluster.led_by(-1)
    cluster.starts(1, 0)
    assert cluster.laws_broken() == []
    cluster.led_by(1)
    assert cluster.laws_broken() == ["S21"]


def test_a_log_that_begins_earlier_than_before_in_the_same_life_is_seen() -> None:
    cluster = Cluster()
    cluster.moves(7, 1, 2)
    assert cluster.laws_broken() == []
    cluster.moves(5, 2)
    assert cluster.laws_broken() == ["S20"]


@pytest.mark.parametrize(("expires", "broken"), [(False, 1), (True, 0)])
def test_what_nobody_deleted_goes_by_retention_only(expires: bool, broken: int) -> None:
    cluster = Cluster(expires=expires)
    cluster.laws.asked(WHERE, 6)
    cluster.deleted(6)
    cluster.moves(7, 1, 2)
    assert len(cluster.laws.at_rest([])) == broken


@pytest.mark.parametrize(
    ("held", "broken"),
    [
        ({4: "b", 5: "c"}, []),
        ({4: "b", 5: "c", 6: "never answered"}, []),
        ({5: "c"}, ["S1"]),
        ({4: "x", 5: "c"}, ["S1"]),
        ({4: "b", 5: "c", 6: "c"}, ["S16"]),
    ],
)
def test_what_was_acknowledged_and_not_deleted_is_there_once(held: dict[int, str], broken: list[str]) -> None:
    sends = [Send("p", n, 0, text, 1, 2, OK, n + 3) for n, text in enumerate("abc")]
    assert [law.partition(":")[0] for law in unkept(WHERE, sends, 4, held)] == broken
