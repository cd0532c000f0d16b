"""Throttled replication (KIP-73): a replica on the move copies as fast as it may, members of the ISR as they can."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from moldau.broker.replicas.replica import Replica
from moldau.broker.replicas.throttles import DEBT_MAX_S, RECHECK_MS, Quota, Side, Throttles
from moldau.image import Image
from moldau.model import TopicPartition
from moldau.wire.records import metadata as records
from tests.packages.broker.data_cluster import TOPIC, TOPIC_ID, DataCluster, batch, run, until
from tests.packages.doubles import ManualTasks
from tests.packages.manual_clock import ManualClock


@dataclass
class OfPartition(Replica):
    """A replica, as far as a throttle looks at it."""

    partition: TopicPartition


def test_a_quota_lets_a_seconds_worth_go_and_then_makes_up_for_it() -> None:
    clock = ManualClock(5_000)
    quota = Quota(clock)
    quota.set_rate(1000)
    assert quota.wait_ms == 0
    quota.spend(1500)
    assert 500 <= quota.wait_ms <= 510
    clock.now_ms += 499
    assert quota.wait_ms > 0
    clock.now_ms += 10
    assert quota.wait_ms == 0
    clock.now_ms += 1_000_000
    quota.spend(1001)
    assert quota.wait_ms > 0, "an idle hour saves up one second"


def test_one_big_batch_does_not_stop_replication_for_ever() -> None:
    clock = ManualClock(5_000)
    quota = Quota(clock)
    quota.set_rate(100)
    quota.spend(1_000_000)
    assert quota.wait_ms == RECHECK_MS
    clock.now_ms += 1000 * DEBT_MAX_S + 20
    assert quota.wait_ms == 0


def test_a_rate_of_zero_lets_nothing_go() -> None:
    clock = ManualClock(5_000)
    quota = Quota(clock)
    quota.set_rate(0)
    clock.now_ms += 1_000_000
    assert quota.wait_ms == RECHECK_MS


@pytest.mark.parametrize(
    ("text", "held"),
    [(None, []), ("", []), ("*", [0, 1, 2]), ("0:1,1:2, 2:1", [0, 2]), ("0:2", [])],
)
def test_a_topic_lists_its_replicas_by_partition_and_broker(text: str | None, held: list[int]) -> None:
    side = Side(ManualClock(5_000))
    side.list("t", text, 1)
    replicas = [OfPartition(TopicPartition("t", n)) for n in range(3)]
    assert [r.partition.partition for r in replicas if side.throttles(r)] == held


def test_without_a_rate_or_without_a_list_nothing_is_on() -> None:
    image, clock = Image(), ManualClock(5_000)
    throttles = Throttles(1, clock, ManualTasks(clock))

    def altered(kind: int, name: str, key: str, value: str | None) -> tuple[bool, bool]:
        image.apply(records.ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value))
        throttles.changed(image, {(kind, name)})
        return throttles.leading.on, throttles.following.on

    image.apply(records.TopicRecord(name="t", topic_id=TOPIC_ID))
    assert altered(2, "t", "leader.replication.throttled.replicas", "*") == (False, False)
    assert altered(4, "", "leader.replication.throttled.rate", "10") == (True, False)
    assert altered(4, "1", "follower.replication.throttled.rate", "10") == (True, False)
    assert altered(2, "t", "follower.replication.throttled.replicas", "0:1") == (True, True)
    assert altered(4, "1", "leader.replication.throttled.rate", "20") == (True, True)
    assert throttles.leading.quota.rate == 20, "a broker's own rate goes before the cluster's"
    assert altered(4, "1", "follower.replication.throttled.rate", None) == (True, False)
    assert altered(2, "t", "leader.replication.throttled.replicas", None) == (False, False)


def configure(cluster: DataCluster, kind: int, name: str, **settings: str | None) -> None:
    cluster.commit(
        *(
            records.ConfigRecord(resource_type=kind, resource_name=name, name=key.replace("_", "."), value=value)
            for key, value in settings.items()
        )
    )


def moving(side: str, brokers: int) -> Callable[[Path], Callable[[], Awaitable[None]]]:
    """A scene: broker 2 is added to a partition of brokers 0 and 1; ``side``'s throttle holds it, then does not."""

    def scene(folder: Path) -> Callable[[], Awaitable[None]]:
        async def work() -> None:
            async with DataCluster(folder, replica_fetch_max_bytes="20000") as cluster:
                cluster.create(0, 1)
                for _ in range(10):
                    assert (await cluster.produce(0, batch(100, 100))).error_code == 0
                end = cluster.brokers[0].replica().log.log_end_offset
                configure(cluster, 4, "", **{f"{side}_replication_throttled_rate": "2000"})
                configure(cluster, 2, TOPIC, **{f"{side}_replication_throttled_replicas": f"0:{brokers}"})
                cluster.change(replicas=[0, 1, 2], adding_replicas=[2])
                await until(lambda: (TOPIC_ID, 0) in cluster.brokers[2].replicas.by_key)
                newcomer = cluster.brokers[2].replica()
                await until(lambda: newcomer.log.log_end_offset > 0, "a second's worth is copied")
                assert (await cluster.produce(0, batch(5, 100))).error_code == 0, "the ISR is not throttled"
                await asyncio.sleep(0.2)
                assert newcomer.log.log_end_offset < end
                assert 2 not in cluster.image.at((TOPIC_ID, 0)).isr
                configure(cluster, 4, "", **{f"{side}_replication_throttled_rate": None})
                await until(lambda: 2 in cluster.image.at((TOPIC_ID, 0)).isr, "it catches up")
                assert newcomer.log.log_end_offset == end + 5

        return work

    return scene


def test_a_leader_gives_a_throttled_newcomer_no_more_than_its_rate(tmp_path: Path) -> None:
    run(moving("leader", 0)(tmp_path))  # type: ignore[arg-type]


def test_a_follower_asks_for_no_more_than_its_rate(tmp_path: Path) -> None:
    run(moving("follower", 2)(tmp_path))  # type: ignore[arg-type]


def test_a_throttle_holds_its_partition_and_no_other(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, partitions=2)
            for number in (0, 1):
                assert (await cluster.produce(0, batch(100, 100), number=number)).error_code == 0
            configure(cluster, 4, "", follower_replication_throttled_rate="0")
            configure(cluster, 2, TOPIC, follower_replication_throttled_replicas="0:1")
            for number in (0, 1):
                cluster.change(number, replicas=[0, 1], adding_replicas=[1])
            await until(lambda: 1 in cluster.image.at((TOPIC_ID, 1)).isr)
            assert cluster.brokers[1].replica(0).log.log_end_offset == 0
            configure(cluster, 2, TOPIC, follower_replication_throttled_replicas="1:1")
            await until(lambda: 1 in cluster.image.at((TOPIC_ID, 0)).isr)

    run(work)
