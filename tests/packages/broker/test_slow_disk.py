"""A disk whose every call takes long: the loop makes and renames no folder, however many come and go."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from moldau.broker.loop import TURN_MS
from moldau.image import Delta
from moldau.model.value import replace
from moldau.ports import Clock
from moldau.runtime.disk import RealDisk
from moldau.wire.records import metadata as records
from tests.packages.broker.data_cluster import DataCluster, run, until

MANY = 40
CALL_MS = 4 * TURN_MS
ID = bytes([9] * 16)


class SlowDisk:
    """A real disk, and the clock on which each folder that is made or renamed takes ``CALL_MS``."""

    def __init__(self, clock: Clock) -> None:
        self._disk, self._clock = RealDisk(), clock
        self._spent_ms = 0
        self.calls = 0

    def monotonic_ms(self) -> int:
        return self._clock.monotonic_ms() + self._spent_ms

    def monotonic_ns(self) -> int:
        return self._clock.monotonic_ns() + self._spent_ms * 1_000_000

    def processor_ns(self) -> int:
        return self._clock.processor_ns()

    def wall_ms(self) -> int:
        return self._clock.wall_ms()

    def make_dirs(self, path: str) -> None:
        self._take_long()
        self._disk.make_dirs(path)

    def rename(self, source: str, target: str) -> None:
        self._take_long()
        self._disk.rename(source, target)

    def _take_long(self) -> None:
        self._spent_ms += CALL_MS
        self.calls += 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)


def calls_of_the_loop(cluster: DataCluster, disk: SlowDisk, *batch: Any) -> int:
    """Have the broker carry out the records in turns, between which no worker is heard; the most calls in one."""
    delta = Delta()
    for record in batch:
        cluster.offset += 1
        cluster.image.apply(record, cluster.offset, delta)
    most, before = 0, disk.calls
    for _ in cluster.brokers[0].replicas.apply_in_slices(cluster.image, delta):
        most, before = max(most, disk.calls - before), disk.calls
    return max(most, disk.calls - before)


def on_slow_disk(folder: Path, act: Callable[[DataCluster, SlowDisk], Awaitable[None]]) -> None:
    async def scene() -> None:
        cluster = DataCluster(folder, 1)
        cluster.folders_at_once = False
        disk = SlowDisk(cluster.world.clock)
        cluster.world = replace(cluster.world, disk=disk, clock=disk)
        async with cluster:
            await act(cluster, disk)

    run(scene)


def test_no_step_makes_or_renames_a_folder_and_workers_make_all_of_them(tmp_path: Path) -> None:
    async def act(cluster: DataCluster, disk: SlowDisk) -> None:
        replicas = cluster.brokers[0].replicas
        made = (
            records.PartitionRecord(
                topic_id=ID, partition_id=number, replicas=[0], isr=[0], leader=0, leader_epoch=0, partition_epoch=0
            )
            for number in range(MANY)
        )
        assert calls_of_the_loop(cluster, disk, records.TopicRecord(name="many", topic_id=ID), *made) == 0
        assert len(replicas.by_key) == MANY
        await until(lambda: not any(replica.log.awaits_folder for replica in replicas.by_key.values()), "all are made")
        before = disk.calls
        assert before >= MANY, "one for each partition"
        assert calls_of_the_loop(cluster, disk, records.RemoveTopicRecord(topic_id=ID)) == 0
        assert not replicas.by_key
        await until(lambda: disk.calls >= before + MANY, "all are renamed")

    on_slow_disk(tmp_path, act)
