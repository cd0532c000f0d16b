"""A produce request to many partitions, or of many bytes, is appended in turns of the loop, in the order in which it
came, and what it is made of stays as it was sent."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from moldau.broker.loop import run_in_slices
from moldau.broker.network.serving import FEW, encoded
from moldau.model import Code
from moldau.runtime.world import RealTasks
from moldau.storage.segment import Segment
from moldau.wire.batch import headers
from moldau.wire.frames import read_request_header, response_frame
from moldau.wire.messages.k00_produce import ProduceRequest, ProduceResponse
from moldau.wire.messages.k18_api_versions import ApiVersionsRequest
from tests.packages.broker.data_cluster import TOPIC, TOPIC_ID, DataCluster, batch, run, until
from tests.packages.broker.test_network_memory import frame

MANY = 300


def to_many(numbers: range, data: bytes, acks: int = 1) -> ProduceRequest:
    """The same batch to each of these partitions."""
    parts = [ProduceRequest.PartitionProduceData(index=number, records=data) for number in numbers]
    topic = ProduceRequest.TopicProduceData(name=TOPIC, topic_id=TOPIC_ID, partition_data=parts)
    return ProduceRequest(acks=acks, timeout_ms=60_000, topic_data=[topic])


def ends(cluster: DataCluster) -> list[int]:
    """Where the log of each partition ends."""
    return [cluster.brokers[0].replica(number).log.log_end_offset for number in range(MANY)]


class Turns:
    """How many appends, and how many bytes of them, one turn of the loop held at most."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.appends = self.size = self.most_appends = self.most_bytes = 0
        append = Segment.append

        def counted(segment: Segment, data: Any, *args: Any) -> None:
            if not self.appends:
                asyncio.get_running_loop().call_soon(self._turned)
            self.appends += 1
            self.size += len(data)
            self.most_appends, self.most_bytes = max(self.most_appends, self.appends), max(self.most_bytes, self.size)
            append(segment, data, *args)

        monkeypatch.setattr(Segment, "append", counted)

    def _turned(self) -> None:
        self.appends = self.size = 0


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    return Turns(monkeypatch)


@pytest.mark.parametrize("acks", [1, -1, 0])
def test_no_turn_appends_to_very_many_partitions(tmp_path: Path, turns: Turns, acks: int) -> None:
    """Ten thousand partitions of one request were one step of 1.5 s: each had its file made."""

    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0, partitions=MANY)
            line = await cluster.line(0)
            request = to_many(range(MANY), batch(), acks)
            if acks:
                response = await line.ask(request, version=11)
                slots = response.responses[0].partition_responses
                assert [(s.index, s.error_code, s.base_offset) for s in slots] == [(n, 0, 0) for n in range(MANY)]
            else:
                line.tell(request, version=11)
                await line.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), version=3)
            await until(lambda: ends(cluster) == [1] * MANY)
            assert turns.most_appends <= 60

    run(work)


def test_no_turn_appends_very_many_bytes(tmp_path: Path, turns: Turns) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0, partitions=20)
            response = await cluster.ask(0, to_many(range(20), batch(1, 900_000)), 11)
            assert {slot.error_code for slot in response.responses[0].partition_responses} == {0}
            assert turns.most_bytes < 5 << 20

    run(work)


def test_an_answer_about_many_partitions_is_encoded_in_slices() -> None:
    """A hundred and twenty thousand were one step of 148 ms."""

    async def work() -> None:
        def of(count: int) -> ProduceResponse:
            told = [kind.PartitionProduceResponse(index=number, base_offset=7) for number in range(count)]
            return ProduceResponse(responses=[kind.TopicProduceResponse(name="t", partition_responses=told)])

        kind = ProduceResponse
        loop = asyncio.get_running_loop()
        tasks = RealTasks(loop, lambda name, error: None)
        header = read_request_header(memoryview(frame(to_many(range(1), b""), 9, 5))[4:])
        assert isinstance(encoded(of(FEW), header, tasks), list), "a short one is made at once"
        slowly = encoded(of(5_000), header, tasks)
        assert isinstance(slowly, Generator)
        turns = 0

        def turned() -> None:
            nonlocal turns
            turns += 1
            loop.call_soon(turned)

        loop.call_soon(turned)
        assert await run_in_slices(tasks, slowly) == response_frame(of(5_000), 9, 5)
        assert turns >= 5

    run(work)


def test_requests_of_one_connection_are_appended_in_their_order(tmp_path: Path) -> None:
    """The second has to wait for the first, which takes several turns; others of the loop come between them."""

    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0, partitions=MANY)
            line = await cluster.line(0)
            first = batch(1, producer_id=4, producer_epoch=0, base_sequence=0)
            second = batch(1, producer_id=4, producer_epoch=0, base_sequence=1)
            asked = [line.ask(to_many(range(MANY), data), version=11) for data in (first, second)]
            asked.append(line.ask(to_many(range(MANY - 1, MANY), batch()), version=11))
            answers = await asyncio.gather(*asked)
            for number, answer in enumerate(answers):
                slots = answer.responses[0].partition_responses
                assert {(slot.error_code, slot.base_offset) for slot in slots} == {(0, number)}

    run(work)


def test_bytes_of_other_connections_come_into_no_log_that_is_not_theirs(tmp_path: Path) -> None:
    """All connections share one receive buffer, which takes what others send between two turns."""

    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0, partitions=MANY)
            lines = [await cluster.line(0)]
            for _ in range(3):
                cluster.lines.pop(0)
                lines.append(await cluster.line(0))
            asked = [
                line.ask(to_many(range(75 * n, 75 * n + 75), batch(1, 20 + n)), version=11)
                for n, line in enumerate(lines)
            ]
            for answer in await asyncio.gather(*asked):
                assert {slot.error_code for slot in answer.responses[0].partition_responses} == {0}
            for number in range(MANY):
                data = await cluster.fetch(0, 0, number)
                assert bytes(data.records or b"").endswith(batch(1, 20 + number // 75)[-30:])
                assert len(list(headers(bytes(data.records or b"")))) == 1
            for line in lines:
                line.close()

    run(work)


def test_who_waits_for_followers_is_answered_when_all_partitions_have_them(tmp_path: Path) -> None:
    """Followers may have the first partitions before the last ones are appended."""

    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1, partitions=MANY)
            response = await cluster.ask(0, to_many(range(MANY), batch(), -1), 11)
            slots = response.responses[0].partition_responses
            assert [(s.index, s.error_code, s.base_offset) for s in slots] == [(n, 0, 0) for n in range(MANY)]
            assert {cluster.brokers[0].replica(number).machine.high_watermark for number in range(MANY)} == {1}
            assert len(cluster.brokers[0].replicas.purgatory) <= 2, "nobody waits but the follower's fetches"

    run(work)


def test_what_cannot_be_taken_costs_an_unheard_producer_its_connection_and_no_other_partition(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0, partitions=MANY)
            line = await cluster.line(0)
            parts = to_many(range(MANY), batch(), 0)
            parts.topic_data[0].partition_data[3].index = MANY + 7
            line.tell(parts, version=11)
            await until(lambda: line.closed)
            await until(lambda: ends(cluster) == [int(number != 3) for number in range(MANY)])
            slot = await cluster.produce(0, batch(), 1)
            assert slot.error_code == Code.NONE

    run(work)
