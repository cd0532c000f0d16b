"""Consumers that lag: bytes that are on the disk only are read beside the loop, and one answer holds a bounded part."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from moldau.client.connection import connect
from moldau.runtime.disk import RealDisk, RealFile
from moldau.storage.uncached import Load
from moldau.wire.batch import headers
from moldau.wire.messages.k01_fetch import FetchRequest, FetchResponse
from tests.packages.broker.data_cluster import TOPIC_ID, DataCluster, batch, records_of, run, until


class Device:
    """A disk whose pages are in no cache; reads of it wait until they are let go on."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.goes_on = threading.Event()
        self.reads = 0
        self.fails = False
        whole = Load.run

        def read(load: Load) -> None:
            self.reads += 1
            assert self.goes_on.wait(60)
            if self.fails:
                load.error = OSError(5, "Input/output error")
            else:
                whole(load)

        patch.setattr(Load, "run", read)
        patch.setattr(RealFile, "is_recent", lambda file, offset: False)
        patch.setattr(RealFile, "is_cached", lambda file, size, offset: False)


@pytest.mark.parametrize("max_wait_ms", [0, 60_000])
def test_who_waits_for_the_disk_holds_up_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, max_wait_ms: int
) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0, partitions=2)
            for _ in range(3):
                await cluster.produce(0, batch(2))
            device = Device(monkeypatch)
            lagging = asyncio.ensure_future(cluster.fetch(0, 0, max_wait_ms=max_wait_ms))
            await until(lambda: device.reads == 1, "the disk is asked")
            other = await connect(cluster.world, "127.0.0.1", cluster.brokers[0].port)
            for _ in range(3):
                asked = cluster.fetch_request((1, 0), max_wait_ms=0)
                assert (await other.ask(asked, version=17)).responses[0].partitions[0].error_code == 0
            assert not lagging.done()
            device.goes_on.set()
            found = await lagging
            assert [header.base_offset for _, header in headers(records_of(found))] == [0, 2, 4]
            assert device.reads == 1
            other.close()
            assert not len(cluster.brokers[0].replicas.purgatory)

    run(work)


def test_a_reader_has_one_such_read_under_way_and_comes_to_all_its_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0, partitions=4)
            for number in range(4):
                await cluster.produce(0, batch(2), number=number)
            device = Device(monkeypatch)
            at = dict.fromkeys(range(4), 0)
            while min(at.values()) < 2:
                reads = cluster.brokers[0].replicas.cold_reads
                await until(lambda reads=reads: reads.under_way <= 1, "older ones have ended")  # type: ignore[misc]
                before = device.reads
                device.goes_on.clear()
                asked = cluster.fetch_request(*at.items(), max_wait_ms=60_000)
                answer = asyncio.ensure_future(cluster.ask(0, asked, 17))
                await until(lambda now=before: device.reads > now, "the disk is asked")  # type: ignore[misc]
                assert cluster.brokers[0].replicas.cold_reads.under_way <= 2, "one of this fetch, one left by the last"
                device.goes_on.set()
                for part in (await answer).responses[0].partitions:
                    at[part.partition_index] += 2 if part.records else 0

    run(work)


def test_a_session_comes_to_partitions_that_waited_for_another_ones_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer went back to old records of two partitions, and was given one's until something came to the other."""

    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0, partitions=3)
            for number in range(3):
                await cluster.produce(0, batch(2), number=number)
            line = await cluster.connect_another(0)

            async def ask(*parts: tuple[int, int], epoch: int, wait_ms: int = 0) -> Any:
                request = cluster.fetch_request(*parts, session_id=id, session_epoch=epoch, max_wait_ms=wait_ms)
                return await asyncio.wait_for(cluster.ask(0, request, 12, line), 60)

            id = 0
            id = (await ask(*((number, 2) for number in range(3)), epoch=0)).session_id
            await ask(epoch=1)
            device = Device(monkeypatch)
            device.goes_on.set()
            named, got = {0: 0, 1: 0, 2: 0}, set()
            for epoch in range(2, 5):
                answer = await ask(*named.items(), epoch=epoch, wait_ms=60_000)
                found = [part for topic in answer.responses for part in topic.partitions]
                named = {part.partition_index: 2 for part in found if part.records}
                got |= set(named)
            assert got == {0, 1, 2}

    run(work)


def test_a_partition_that_was_forgotten_while_its_bytes_came_is_not_read_in_the_place_of_its_successor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer that had let go of a partition and came back to earlier records was given the later ones it had asked
    for before, and never read those between."""

    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0, partitions=2)
            for _ in range(3):
                await cluster.produce(0, batch(2))
            lines = [await cluster.connect_another(0) for _ in range(2)]

            async def ask(*parts: tuple[int, int], epoch: int, line: int = 0, **fields: Any) -> Any:
                request = cluster.fetch_request(*parts, session_id=id, session_epoch=epoch, **fields)
                return await asyncio.wait_for(cluster.ask(0, request, 17, lines[line]), 60)

            id = 0
            id = (await ask((0, 6), (1, 0), epoch=0)).session_id
            device = Device(monkeypatch)
            first = asyncio.ensure_future(ask((0, 4), epoch=1, max_wait_ms=60_000))
            await until(lambda: device.reads == 1, "the disk is asked")
            gone = FetchRequest.ForgottenTopic(topic_id=TOPIC_ID, partitions=[0])
            await ask(epoch=2, line=1, forgotten_topics_data=[gone])
            await first
            second = asyncio.ensure_future(ask((0, 0), epoch=3, max_wait_ms=60_000))
            reader = next(iter(cluster.brokers[0].replicas.sessions))
            await until(lambda: reader.waiting is not None, "it waits")
            device.goes_on.set()
            answer, epoch = await second, 3
            while not (found := with_records(answer)):  # who waited while bytes came for another asks again
                answer, epoch = await ask(epoch=epoch + 1, max_wait_ms=60_000), epoch + 1
            assert next(header.base_offset for _, header in headers(records_of(found[0]))) == 0

    run(work)


def test_bytes_that_came_for_a_partition_that_was_forgotten_are_told_to_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Java client takes an answer that names more than it asked for as invalid, and begins another session."""

    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0, partitions=2)
            for number in range(2):
                await cluster.produce(0, batch(2), number=number)
            lines = [await cluster.connect_another(0) for _ in range(2)]

            async def ask(*parts: tuple[int, int], epoch: int, line: int = 0, **fields: Any) -> Any:
                request = cluster.fetch_request(*parts, session_id=id, session_epoch=epoch, **fields)
                return await asyncio.wait_for(cluster.ask(0, request, 17, lines[line]), 60)

            id = 0
            id = (await ask((0, 2), (1, 2), epoch=0)).session_id
            device = Device(monkeypatch)
            first = asyncio.ensure_future(ask((0, 0), epoch=1, max_wait_ms=60_000))
            await until(lambda: device.reads == 1, "the disk is asked")
            gone = FetchRequest.ForgottenTopic(topic_id=TOPIC_ID, partitions=[0])
            second = asyncio.ensure_future(
                ask((1, 0), epoch=2, line=1, forgotten_topics_data=[gone], max_wait_ms=60_000)
            )
            await first
            device.goes_on.set()
            answer, epoch = await second, 2
            while True:
                assert {part.partition_index for topic in answer.responses for part in topic.partitions} <= {1}
                if with_records(answer):
                    break
                answer, epoch = await ask(epoch=epoch + 1, max_wait_ms=60_000), epoch + 1

    run(work)


def with_records(answer: FetchResponse) -> list[FetchResponse.PartitionData]:
    return [part for topic in answer.responses for part in topic.partitions if part.records]


def test_what_is_wrong_with_the_disk_is_said_by_the_read_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0)
            await cluster.produce(0, batch(2))
            device = Device(monkeypatch)
            device.fails = True
            device.goes_on.set()
            found = await cluster.fetch(0, 0, max_wait_ms=0)
            assert [header.base_offset for _, header in headers(records_of(found))] == [0], "this time it could be read"

    run(work)


def test_an_answer_from_before_a_restart_holds_a_bounded_part_of_what_was_asked_for(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0, partitions=3)
            for number in range(3):
                for _ in range(8):
                    await cluster.produce(0, batch(1, size=300_000), number=number)
            cluster.brokers[0].replicas.deps.logs.close(1)
            cluster.kill(0)
            await cluster.boot(0)
            asked: dict[str, Any] = {"max_wait_ms": 0, "max_bytes": 1 << 26, "each_bytes": 1 << 26}
            at = dict.fromkeys(range(3), 0)
            answers = 0
            while min(at.values()) < 8:
                answer = await cluster.ask(0, cluster.fetch_request(*at.items(), **asked), 17)
                sizes = [len(part.records) for part in answer.responses[0].partitions]
                assert 0 < sum(sizes) <= 2 << 20
                for part in answer.responses[0].partitions:
                    at[part.partition_index] += len(list(headers(part.records)))
                answers += 1
            assert answers >= 4

    run(work)


def test_a_file_says_what_is_in_the_page_cache(tmp_path: Path) -> None:
    file = RealDisk().open(str(tmp_path / "log"), create=True)
    file.pwrite((bytes(1 << 20),), 0)
    assert file.is_recent(0)
    file.close()
    again = RealDisk().open(str(tmp_path / "log"))
    assert not again.is_recent(0)
    assert again.is_cached(1 << 20, 0), "it has just been written"
    again.close()
