"""Clients' fetch sessions have so many partitions together, however many of them there are; followers' count for none.

A client that begins anew leaves its session behind: of 100,000 partitions it was 45 MB each time, a thousand times.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from moldau.broker.replicas.fetch import reader as readings
from moldau.broker.replicas.fetch import sessions
from moldau.model import Code
from moldau.wire.messages.k01_fetch import FetchResponse
from tests.packages.broker.data_cluster import DataCluster, batch, run, until

ROOM = 20
"""Partitions that all clients' sessions may have together, in these tests."""


@pytest.fixture(autouse=True)
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "PARTITIONS_ALL", ROOM)


class Client:
    """One connection to broker 0 that fetches within sessions, or without one."""

    def __init__(self, cluster: DataCluster, replica_id: int = -1) -> None:
        self._cluster, self._replica_id = cluster, replica_id
        self._line: list[Any] = []

    async def ask(self, *numbers: int, session: tuple[int, int] = (0, 0), **more: Any) -> FetchResponse:
        if not self._line:
            self._line.append(await self._cluster.connect_another(0))
        request = self._cluster.fetch_request(
            *((number, 0) for number in numbers), session_id=session[0], session_epoch=session[1], max_wait_ms=0
        )
        request.replica_id = self._replica_id
        for name, value in more.items():
            setattr(request, name, value)
        answer: FetchResponse = await asyncio.wait_for(self._cluster.ask(0, request, 12, self._line[0]), 60)
        return answer


def numbers(answer: FetchResponse) -> list[int]:
    return [part.partition_index for topic in answer.responses for part in topic.partitions]


def held(cluster: DataCluster) -> int:
    return sum(len(session.parts) for session in cluster.brokers[0].replicas.sessions if not session.follower)


@pytest.mark.parametrize("in_slices", [False, True])
def test_a_client_is_served_without_a_session_where_clients_have_too_many_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_slices: bool
) -> None:
    if in_slices:
        monkeypatch.setattr(readings, "PARTITIONS_AT_ONCE", 5)
        monkeypatch.setattr("moldau.broker.api.k01_fetch.PARTITIONS_AT_ONCE", 5)

    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0, partitions=15)
            ids = []
            for _ in range(10):  # each on a connection of its own, which nobody uses again
                answer = await Client(cluster).ask(*range(7))
                assert numbers(answer) == list(range(7))
                ids.append(answer.session_id)
            assert [bool(id) for id in ids] == [True, True] + [False] * 8
            assert held(cluster) == 14
            without = await Client(cluster).ask(*range(15), session=(0, -1))
            assert numbers(without) == list(range(15))
            assert without.error_code == Code.NONE

    run(work)


def test_what_a_client_without_room_for_a_session_asked_for_is_forgotten_with_its_answer(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0, partitions=ROOM + 1)
            client = Client(cluster)
            answer = await client.ask(*range(ROOM + 1))
            assert (answer.session_id, len(numbers(answer))) == (0, ROOM + 1)
            waits = asyncio.ensure_future(client.ask(*range(ROOM + 1), max_wait_ms=60_000, min_bytes=1))
            replica = cluster.brokers[0].replica(3)
            await until(lambda: bool(replica.consumers), "a fetch that waits")
            await cluster.produce(0, batch(1), number=3)
            answer = await waits
            assert answer.session_id == 0
            assert [p.partition_index for t in answer.responses for p in t.partitions if p.records] == [3]
            assert not replica.consumers, "nobody watches it any more"

    run(work)


def test_a_session_that_grows_beyond_the_room_ends_and_its_client_begins_again(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0, partitions=ROOM + 5)
            client, other = Client(cluster), Client(cluster)
            session_id = (await client.ask(*range(10))).session_id
            others = (await other.ask(*range(10))).session_id
            assert session_id
            assert others
            again = await client.ask(*range(10), session=(session_id, 1))
            assert again.session_id == session_id, "it has what it had"
            more = await client.ask(10, 11, session=(session_id, 2))
            assert more.error_code == Code.FETCH_SESSION_ID_NOT_FOUND
            assert held(cluster) == 10
            assert (await other.ask(session=(others, 1))).session_id == others

    run(work)


def test_sessions_that_were_idle_for_long_give_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0, partitions=15)
            left = (await Client(cluster).ask(*range(10))).session_id
            busy = Client(cluster)
            used = (await busy.ask(*range(10))).session_id
            cache = cluster.brokers[0].replicas.sessions
            now_ms = cache._clock.monotonic_ms()
            for session in cache:
                session.used_ms = now_ms - (sessions.EVICTABLE_AFTER_MS + 1 if session.session_id == left else 0)
            answer = await Client(cluster).ask(*range(10))
            assert answer.session_id
            assert {session.session_id for session in cache} == {used, answer.session_id}

    run(work)


def test_followers_sessions_need_none_of_the_room(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1, partitions=ROOM + 5)
            answer = await Client(cluster, replica_id=1).ask(*range(ROOM + 5))
            assert answer.session_id
            assert (await Client(cluster).ask(*range(ROOM))).session_id

    run(work)
