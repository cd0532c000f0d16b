"""Fetch sessions of very many partitions: read, answered and forgotten in slices, one fetch of a connection at a time.

A client that names 200,000 partitions once, which need not exist, fetches them all anew with fifty bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.broker.api import k01_fetch
from moldau.broker.replicas.fetch import reader as readings
from moldau.broker.replicas.fetch import sessions
from moldau.broker.replicas.fetch.partition import FetchPartition
from moldau.model import Code
from moldau.wire.batch import headers
from moldau.wire.frames import request_frame
from moldau.wire.messages.k01_fetch import FetchRequest, FetchResponse
from moldau.wire.messages.k02_list_offsets import ListOffsetsRequest
from moldau.wire.records import metadata as records
from tests.packages.broker.data_cluster import TOPIC_ID, DataCluster, batch, run, until
from tests.packages.broker.whole_node import Wire, feed, whole_node

MANY = 5_000
FEW = 10
"""So many are looked at in a turn, where a test says so."""
Data = FetchResponse.PartitionData


class LoopCount:
    """Of one kind of work: how much there was ``most`` in a turn of the loop, and how many turns there were."""

    def __init__(self) -> None:
        self.turns = self.work = self.most = self.total = 0
        self._tick()

    def _tick(self) -> None:
        self.turns, self.work = self.turns + 1, 0
        asyncio.get_running_loop().call_soon(self._tick)

    def did(self, *_: object) -> None:
        self.work, self.total = self.work + 1, self.total + 1
        self.most = max(self.most, self.work)


def frame(session_id: int, epoch: int, partitions: int = 0, **more: Any) -> bytes:
    """A fetch within a session, or one that opens it, of partitions that do not exist."""
    named = [FetchRequest.FetchPartition(partition=number) for number in range(partitions)]
    topics = [FetchRequest.FetchTopic(topic="nobody", partitions=named)] if named else []
    request = FetchRequest(max_wait_ms=0, session_id=session_id, session_epoch=epoch, topics=topics, **more)
    return b"".join(bytes(part) for part in request_frame(request, 12, max(epoch, 0), "test"))


def answers(wire: Wire) -> list[FetchResponse]:
    """What came back, as far as it is whole."""
    found, at = [], 0
    while at + 4 <= len(wire.out) and at + 4 + (size := int.from_bytes(wire.out[at : at + 4], "big")) <= len(wire.out):
        found.append(FetchResponse.decode(bytes(wire.out[at + 9 : at + 4 + size]), 12))
        at += 4 + size
    return found


def whole(wire: Wire) -> int:
    """How many answers are whole."""
    count = at = 0
    while at + 4 <= len(wire.out) and (at := at + 4 + int.from_bytes(wire.out[at : at + 4], "big")) <= len(wire.out):
        count += 1
    return count


async def opened(connection: Any, wire: Wire) -> int:
    """The id of a session of very many partitions."""
    feed(connection, frame(0, 0, MANY))
    await until(lambda: whole(wire), "a session")
    (answer,) = answers(wire)
    assert answer.session_id
    assert len(answer.responses[0].partitions) == MANY
    wire.out.clear()
    return answer.session_id


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[LoopCount]:
    """Looks at partitions are counted by what is put here."""
    counts: list[LoopCount] = []
    read = readings.read  # type: ignore[attr-defined]

    def counted(*args: Any, **more: Any) -> Any:
        for count in counts:
            count.did()
        return read(*args, **more)

    monkeypatch.setattr(readings, "read", counted)
    return counts


def test_no_turn_reads_very_many_partitions_of_a_session_or_asks_whether_they_are_news(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks: list[LoopCount]
) -> None:
    async def work() -> None:
        async with whole_node(tmp_path) as one:
            connection, wire = one.connection("broker")
            session_id = await opened(connection, wire)
            read, news = LoopCount(), LoopCount()
            is_news = FetchPartition.is_news

            def counted(asked: FetchPartition, data: Data) -> bool:
                news.did()
                return is_news(asked, data)

            monkeypatch.setattr(FetchPartition, "is_news", counted)
            looks.append(read)
            for epoch in (1, 2):
                feed(connection, frame(session_id, epoch))
                await until(lambda epoch=epoch: whole(wire) == epoch, "an answer")
            assert [len(answer.responses[0].partitions) for answer in answers(wire)] == [MANY] * 2
            for part in answers(wire)[1].responses[0].partitions:
                assert part.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION, "errors are told at each fetch, as by Kafka"
            assert (read.total, news.total) == (2 * MANY, 2 * MANY)
            assert read.most <= readings.PARTITIONS_AT_ONCE
            assert news.most <= readings.PARTITIONS_AT_ONCE
            wire.close()

    run(work)


def test_a_connection_has_one_answer_of_a_long_session_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred fetches, five kilobytes together, were all read before the first answer was encoded."""
    there = most = 0

    def gone(_: object) -> None:
        nonlocal there
        there -= 1

    async def work() -> None:
        nonlocal there, most
        async with whole_node(tmp_path) as one:
            connection, wire = one.connection("broker")
            session_id = await opened(connection, wire)
            read = readings.read  # type: ignore[attr-defined]
            monkeypatch.setattr(Data, "__del__", gone, raising=False)

            def counted(*args: Any, **more: Any) -> Any:
                nonlocal there, most
                there += 1
                most = max(most, there)
                return read(*args, **more)

            monkeypatch.setattr(readings, "read", counted)
            feed(connection, b"".join(frame(session_id, epoch) for epoch in range(1, 11)))
            got = held = 0

            def done() -> bool:
                nonlocal got, held
                held = max(held, connection.listener.memory.parked.bytes)
                got += whole(wire)
                if whole(wire):
                    wire.out.clear()
                return got == 10

            await until(done, "ten answers")
            assert held >= MANY * readings.ANSWER_BYTES, "it counts as bytes of requests while it is made"
            await until(lambda: not connection.listener.memory.parked.bytes, "and no longer")
            assert connection.listener.memory.requests == 0
            wire.close()

    run(work)
    assert 0 < most <= 2 * MANY, "one that is made, and one that is let go of"


@pytest.mark.parametrize("how", ["closed", "opened anew", "cut off"])
def test_no_turn_forgets_very_many_partitions_of_a_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    async def work() -> None:
        async with whole_node(tmp_path) as one:
            connection, wire = one.connection("broker")
            session_id = await opened(connection, wire)
            freed = LoopCount()
            for cls in (FetchPartition, Data):
                monkeypatch.setattr(cls, "__del__", freed.did, raising=False)
            if how == "cut off":
                feed(connection, frame(session_id, 1))
                begun = freed.turns + 10
                await until(lambda: freed.turns > begun, "it is being read")
                wire.close()
                await until(lambda: freed.total >= 1000, "what was read is let go of")
            else:
                feed(connection, frame(session_id, -1 if how == "closed" else 0))
                await until(lambda: freed.total >= MANY, "the session is forgotten")
                assert answers(wire)[0].error_code == Code.NONE
                wire.close()
            assert freed.most <= 2 * readings.PARTITIONS_AT_ONCE + 2000

    run(work)


def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have few partitions looked at in a turn."""
    for module in (readings, k01_fetch):
        monkeypatch.setattr(module, "PARTITIONS_AT_ONCE", FEW)
    monkeypatch.setattr(readings, "READ_AT_ONCE", FEW)


async def session_of(cluster: DataCluster, partitions: int, ask: Callable[..., Any]) -> int:
    """A session of so many partitions, of which nothing is unread."""
    cluster.create(0, partitions=partitions)
    answer = await ask(*((number, 0) for number in range(partitions)), session=(0, 0), max_wait_ms=0)
    assert answer.session_id
    await ask(session=(answer.session_id, 1), max_wait_ms=0)
    session_id: int = answer.session_id
    return session_id


def asking(cluster: DataCluster) -> Callable[..., Any]:
    line: list[Any] = []

    async def ask(*parts: tuple[int, int], session: tuple[int, int], **more: Any) -> FetchResponse:
        if not line:
            line.append(await cluster.connect_another(0))
        request = cluster.fetch_request(*parts, session_id=session[0], session_epoch=session[1], **more)
        answer: FetchResponse = await asyncio.wait_for(cluster.ask(0, request, 12, line[0]), 60)
        return answer

    return ask


def numbers(answer: FetchResponse) -> list[int]:
    return [part.partition_index for topic in answer.responses for part in topic.partitions]


@pytest.mark.parametrize("ended_by", ["change", "next fetch", "another request", "time"])
def test_a_wait_that_ends_with_very_many_changes_is_answered_in_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks: list[LoopCount], ended_by: str
) -> None:
    few(monkeypatch)

    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            ask = asking(cluster)
            session_id = await session_of(cluster, 100, ask)
            waits = cluster.brokers[0].replicas.purgatory
            (session,) = cluster.brokers[0].replicas.sessions
            wait_ms = 1_000 if ended_by == "time" else 600_000  # long enough to be seen waiting
            kept = asyncio.ensure_future(ask(session=(session_id, 2), max_wait_ms=wait_ms))
            await until(lambda: len(waits) == 1, "it waits")
            read = LoopCount()
            looks.append(read)
            later = None
            if ended_by == "change":
                cluster.commit(records.RemoveTopicRecord(topic_id=TOPIC_ID))
            else:
                for asked in session.parts.values():
                    asked.sent_high_watermark = -2
                    session.mark_changed(asked)
            if ended_by == "next fetch":
                later = asyncio.ensure_future(ask(session=(session_id, 3), max_wait_ms=0))
            elif ended_by == "another request":
                line = cluster.others[-1]
                later = asyncio.ensure_future(cluster.ask(0, ListOffsetsRequest(), None, line))
            answer = await asyncio.wait_for(kept, 60)
            assert sorted(numbers(answer)) == list(range(100))
            if later is not None:
                await asyncio.wait_for(later, 60)
            assert read.total >= 100
            assert read.most <= FEW
            assert not len(waits)
            assert not session.being_read

    run(work)


def test_a_long_session_brings_every_record_once_and_waits_again_when_it_has_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks: list[LoopCount]
) -> None:
    few(monkeypatch)

    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            ask = asking(cluster)
            session_id = await session_of(cluster, 50, ask)
            read = LoopCount()
            for number in range(50):
                await cluster.produce(0, batch(3), number=number)
            looks.append(read)
            got: dict[int, list[int]] = {}
            next_ones: dict[int, int] = {}
            for epoch in range(2, 40):
                answer = await ask(*next_ones.items(), session=(session_id, epoch), max_bytes=1000, max_wait_ms=0)
                next_ones = {}
                for part in answer.responses[0].partitions if answer.responses else ():
                    for _, header in headers(part.records or b""):
                        got.setdefault(part.partition_index, []).append(header.base_offset)
                        next_ones[part.partition_index] = header.base_offset + 3
                if len(got) == 50 and not next_ones:
                    break
            assert got == {number: [0] for number in range(50)}
            assert read.most <= 2 * FEW
            kept = asyncio.ensure_future(ask(session=(session_id, epoch + 1), max_wait_ms=600_000))
            await until(lambda: len(cluster.brokers[0].replicas.purgatory) == 1, "nothing is left to read")
            line = await cluster.connect_another(0)
            request = cluster.fetch_request(session_id=session_id, session_epoch=epoch + 2, max_wait_ms=0)
            assert (await cluster.ask(0, request, 12, line)).error_code == Code.NONE, "which ends the other's wait"
            assert numbers(await kept) == []

    run(work)


def test_two_connections_that_fetch_within_one_long_session_are_answered_one_after_the_other(tmp_path: Path) -> None:
    async def work() -> None:
        async with whole_node(tmp_path) as one:
            connection, wire = one.connection("broker")
            session_id = await opened(connection, wire)
            other, other_wire = one.connection("broker")
            (session,) = one.node.replicas.sessions
            feed(connection, frame(session_id, 1))
            # Where this turn has had its time, a connection that is known for long fetches waits.
            while session.epoch == 1:  # noqa: ASYNC110 - nobody is told of it
                await asyncio.sleep(0)
            assert session.being_read
            feed(other, frame(session_id, 2))
            await until(lambda: whole(wire) and whole(other_wire), "both answers: the first takes longer to encode")
            assert [answer.error_code for answer in (*answers(wire), *answers(other_wire))] == [0, Code.NONE]
            assert len(answers(wire)[0].responses[0].partitions) == MANY
            for each in (wire, other_wire):
                each.close()

    run(work)


def test_partitions_that_are_no_longer_asked_for_leave_a_session_in_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        async with whole_node(tmp_path) as one:
            connection, wire = one.connection("broker")
            session_id = await opened(connection, wire)
            forgotten = LoopCount()
            forget = readings.FetchReader.forget

            def counted(reader: Any, key: Any) -> None:
                forgotten.did()
                forget(reader, key)

            monkeypatch.setattr(readings.FetchReader, "forget", counted)
            gone = [FetchRequest.ForgottenTopic(topic="nobody", partitions=list(range(5, MANY)))]
            feed(connection, frame(session_id, 1, forgotten_topics_data=gone))
            await until(lambda: whole(wire), "an answer")
            assert numbers(answers(wire)[0]) == list(range(5))
            assert forgotten.total == MANY - 5
            assert forgotten.most <= readings.PARTITIONS_AT_ONCE
            wire.close()

    run(work)


def test_a_clients_session_ends_when_it_has_more_partitions_than_it_could_be_opened_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request may name a quarter of a million, and a session would keep those of all."""
    monkeypatch.setattr(sessions, "PARTITIONS_MOST", 20)

    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            ask = asking(cluster)
            session_id = await session_of(cluster, 15, ask)
            more = [(number, 0) for number in range(15, 30)]
            assert numbers(await ask(*more, session=(session_id, 2), max_wait_ms=0)) == list(range(15, 30))
            refused = await ask(session=(session_id, 3), max_wait_ms=0)
            assert refused.error_code == Code.FETCH_SESSION_ID_NOT_FOUND
            assert not len(cluster.brokers[0].replicas.sessions)

    run(work)
