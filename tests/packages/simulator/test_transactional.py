"""Producers write in transactions while nodes die: readers are given what was committed, all of it and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from moldau.history.rows import OK, Read, Send
from moldau.model import TopicPartition
from moldau.replication.roles import Role
from moldau.simulator.laws.compacted import CompactionSight, check, sight
from moldau.simulator.laws.decisions import Decisions
from moldau.simulator.laws.transactions import CommittedView, SimulatedTransaction, TransactionLaws
from moldau.simulator.plan import TopicPlan
from moldau.simulator.plan_transactions import TOPIC
from moldau.simulator.planes import plan_of
from moldau.simulator.run import simulate
from moldau.simulator.scenes import QUORUM, TRANSACTIONS, ZOOKEEPER
from moldau.storage import Log
from moldau.storage.producers import Producers
from moldau.storage.transactions import all_aborted
from tests.packages.simulator.doubles import Machine, Observer, Replica, partition
from tests.packages.storage.test_log import again, fresh
from tests.packages.storage.test_transactions import ABORT, COMMIT, data, marker

WHERE = TopicPartition(TOPIC, 0)
PLANES = pytest.mark.parametrize("plane", [QUORUM, ZOOKEEPER])


@PLANES
@pytest.mark.parametrize("seed", [1, 2])
def test_readers_are_given_what_was_committed(seed: int, plane: str) -> None:
    outcome = simulate(seed, TRANSACTIONS, plane)
    again = f"reproduce: moldau sim --scene {TRANSACTIONS} --mode {plane} --seed {seed}"
    assert outcome.verdict == "passed", "\n".join([*outcome.trace, *outcome.broken, *outcome.doubts, again])


@PLANES
def test_some_plans_have_transactions_and_those_of_older_seeds_have_none(plane: str) -> None:
    plans = [plan_of(seed, None, plane) for seed in range(100)]
    assert 10 <= sum(plan.transactions is not None for plan in plans) <= 35
    always = [plan_of(seed, TRANSACTIONS, plane).transactions for seed in range(100)]
    assert 20 <= sum(topic is not None and topic.keys > 0 for topic in always) <= 50
    assert all(always)
    assert not any(plan_of(seed, None, plane, buggify=False).transactions for seed in range(100))


class LedMachine(Machine):
    """A leader that knows its watermark."""

    def latest(self) -> int:
        return self.high_watermark


class Cluster:
    """One partition with a real log, which n1 leads."""

    def __init__(self, log: Log, *, keys: int = 0) -> None:
        self.observer = cast("Any", Observer(state=partition(1), topic=TOPIC))
        topic = TopicPlan(name=TOPIC, partitions=1, replication_factor=1, keys=keys, configs={})
        self.laws = TransactionLaws(self.observer, topic)
        self.leads(log)

    def leads(self, log: Log) -> None:
        """n1 has this log."""
        machine = LedMachine(log.high_watermark, role=Role.LEADER)
        self.observer.of[1] = Replica(WHERE, machine, log)  # type: ignore[arg-type]

    @property
    def broken(self) -> list[str]:
        self.observer.of[1].machine.high_watermark = self.observer.of[1].log.high_watermark
        self.laws.look()
        return [law.partition(":")[0] for law in self.observer.cluster.broken]


def written(path: Path) -> Log:
    """Offsets 0 and 1 are aborted, 2 and 3 committed, 4 is open, and known is what the producers did."""
    _, log = fresh(path)
    assert len(log.producers) == 0
    data(log, 7)
    marker(log, 7, ABORT)
    data(log, 8)
    marker(log, 8, COMMIT)
    data(log, 9)
    return log


def test_batches_say_what_is_open_what_was_aborted_and_up_to_where_all_is_decided(tmp_path: Path) -> None:
    found: Decisions = sight(written(tmp_path)).decisions
    assert found.open == {9: 4}
    assert [found.is_aborted(offset) for offset in range(5)] == [True, False, False, False, False]
    assert [found.stable_offset(high) for high in (1, 2, 3, 4, 5)] == [0, 2, 2, 4, 4]
    assert found.markers == {1: (None, True), 3: (None, True)}


def test_a_sound_leader_breaks_no_law_through_restarts_and_cuts(tmp_path: Path) -> None:
    log = written(tmp_path)
    cluster = Cluster(log)
    assert cluster.broken == []
    log.close()
    _, log = again(tmp_path)
    log.high_watermark = log.log_end_offset
    assert log.producers.get(9) is not None
    cluster.leads(log)
    assert cluster.broken == []
    assert "a log with an open transaction began another life" in cluster.laws.coverage
    log.truncate_to(4)
    assert log.producers.get(9) is None
    assert cluster.broken == []
    marker(log, 9, COMMIT)
    assert cluster.laws.at_rest([], []) == []


def test_a_leader_that_lets_readers_beyond_an_open_transaction_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Producers, "stable_offset", lambda self, high: high)
    assert Cluster(written(tmp_path)).broken == ["S17"]


def test_a_last_stable_offset_that_goes_back_is_seen(tmp_path: Path) -> None:
    log = written(tmp_path)
    cluster = Cluster(log)
    assert cluster.broken == []
    log.high_watermark = 3
    assert set(cluster.broken) == {"S17"}
    assert any("went back from 4" in law for law in cluster.observer.cluster.broken)


@pytest.mark.parametrize(
    "told",
    [
        lambda one: [],
        lambda one: [one._replace(first_offset=1)],
        lambda one: [one, one._replace(producer_id=8, first_offset=2, last_offset=3)],
        lambda one: [one, one._replace(producer_id=6, first_offset=8, last_offset=9)],
    ],
    ids=["none", "late", "committed", "without a marker"],
)
def test_a_wrong_list_of_aborted_transactions_is_seen(tmp_path: Path, told: Any) -> None:
    log = written(tmp_path)
    (one,) = all_aborted(log)
    log.producers.aborted = told(one)
    assert Cluster(log).broken == ["S17"]


def test_an_abort_that_covers_what_its_producer_had_committed_before_is_seen(tmp_path: Path) -> None:
    _, log = fresh(tmp_path)
    assert len(log.producers) == 0
    data(log, 7)
    marker(log, 7, COMMIT)
    data(log, 7, 1)
    marker(log, 7, ABORT)
    cluster = Cluster(log)
    assert cluster.broken == []
    log.producers.aborted = [one._replace(first_offset=0) for one in log.producers.aborted]
    assert cluster.laws.at_rest([], []) != []


def test_a_transaction_that_does_not_end_is_seen(tmp_path: Path) -> None:
    log = written(tmp_path)
    cluster = Cluster(log)
    cluster.laws.began(SimulatedTransaction("p#1"))
    assert cluster.broken == []
    assert [law.partition(":")[0] for law in cluster.laws.at_rest([], [])] == ["L10", "L10"]


# ---- what readers are given


def transaction(committed: bool | None, *records: tuple[int, str]) -> SimulatedTransaction:
    one = SimulatedTransaction("p#1")
    one.committed, one.ended = committed, True
    one.records = {(0, offset): text for offset, text in records}
    return one


def read(offset: int, text: str) -> Read:
    return Read("r", 0, offset, text)


@pytest.mark.parametrize(("committed", "laws"), [(True, []), (False, ["S17"]), (None, ["S17"])])
def test_a_record_that_is_not_committed_is_given_to_nobody(
    tmp_path: Path, committed: bool | None, laws: list[str]
) -> None:
    cluster = Cluster(written(tmp_path))
    cluster.laws.writes(transaction(committed), ["p-1"])
    cluster.laws.read(read(0, "p-1"))
    assert cluster.broken == laws


def judged(keys: int, *reads: Read, position: int = 9) -> list[str]:
    """What is said of a reader, where a transaction has k1 at 2 and k2 at 3, and a plain producer k1 at 5."""
    observer = cast("Any", Observer(topic=TOPIC))
    laws = TransactionLaws(observer, TopicPlan(name=TOPIC, partitions=1, replication_factor=1, keys=keys, configs={}))
    laws.began(transaction(True, (2, "k1=p-1"), (3, "k2=p-2")))
    laws.began(transaction(False, (6, "k2=p-3")))
    plain = [Send("s", 0, 0, "k1=s-1", 1)._replace(outcome=OK, offset=5)]
    return laws.at_rest([CommittedView("r", reads, {0: position})], plain)


ALL = read(2, "k1=p-1"), read(3, "k2=p-2"), read(5, "k1=s-1")


def test_every_committed_record_below_a_readers_position_is_given_once() -> None:
    assert judged(0, *ALL) == []
    assert judged(0, *ALL[:2], position=5) == []
    assert len(judged(0, *ALL[1:])) == 1
    assert len(judged(0, *ALL, ALL[0])) == 1


def test_of_a_compacted_topic_each_keys_newest_committed_record_is_given() -> None:
    assert judged(2, *ALL[1:]) == []
    assert len(judged(2, ALL[0], ALL[2])) == 1
    assert len(judged(2, *ALL[:2])) == 1


# ---- what a compaction may take


def of(horizon_ms: int | None, had: bool, *, is_there: bool = True) -> CompactionSight:
    decisions = Decisions()
    if is_there:
        decisions.markers[4] = horizon_ms, had
    return CompactionSight({}, {}, (0, 5), decisions)


@pytest.mark.parametrize(
    ("horizon_ms", "had", "laws"), [(100, False, []), (101, False, ["S17"]), (None, False, ["S17"]), (1, True, ["S17"])]
)
def test_a_marker_outlasts_its_records_and_then_its_time(horizon_ms: int | None, had: bool, laws: list[str]) -> None:
    assert check(of(horizon_ms, had), of(horizon_ms, had), 100, 0, 5) == []
    broken = check(of(horizon_ms, had), of(None, False, is_there=False), 100, 0, 5)
    assert [law.partition(":")[0] for law in broken] == laws


def test_an_aborted_record_may_go_and_replaces_nothing(tmp_path: Path) -> None:
    before = sight(written(tmp_path))
    without = {offset: one for offset, one in before.held.items() if offset}
    assert check(before, before._replace(held=without), 0, 0, 5) == []
    committed = {offset: one for offset, one in before.held.items() if offset != 2}
    assert [law.partition(":")[0] for law in check(before, before._replace(held=committed), 0, 0, 5)] == ["S5"]
