"""Produce, replicate, fail over and fetch, over real sockets and files, under a model controller."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from moldau.model import Code
from moldau.wire.batch import headers, patch
from moldau.wire.messages.k01_fetch import FetchRequest, FetchResponse
from tests.packages.broker.data_cluster import DROPS_SOON, DataCluster, batch, records_of, run, until


def test_what_is_acknowledged_by_all_is_on_all_and_can_be_fetched(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path) as cluster:
            cluster.create(0, 1, 2)
            for n in range(5):
                slot = await cluster.produce(0, batch(10))
                assert (slot.error_code, slot.base_offset, slot.log_append_time_ms) == (0, 10 * n, -1)
            data = await cluster.fetch(0, 0)
            assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (50, 50, 0)
            assert [header.base_offset for _, header in headers(records_of(data))] == [0, 10, 20, 30, 40]
            for broker in cluster.live.values():
                await until(lambda broker=broker: broker.replica().log.log_end_offset == 50)
                assert broker.replica().log.read(0, 1 << 20) == records_of(data)
            assert not cluster.altered, "by fetching, not by being dropped from the ISR"

    run(work)


def test_large_answers_are_the_bytes_of_the_log(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path) as cluster:
            cluster.create(0, 1, 2)
            for _ in range(3):
                assert (await cluster.produce(0, batch(10, 20_000))).error_code == 0
            data = await cluster.fetch(0, 0)
            assert [header.base_offset for _, header in headers(records_of(data))] == [0, 10, 20]
            for broker in cluster.live.values():
                await until(lambda broker=broker: broker.replica().log.log_end_offset == 30)
                assert broker.replica().log.read(0, 1 << 20) == records_of(data)

    run(work)


def test_a_follower_takes_nothing_of_a_later_epoch_than_it_asked_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader that was deposed while it sent its file may have its successor's batches in it by now."""
    asked = []
    successors = bytearray(batch(3))
    patch(successors, 0, 0, 9)

    def unread(*_: object, **__: object) -> bytes:
        asked.append(True)
        return bytes(successors)

    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1)
            leader, follower = (cluster.brokers[id].replica() for id in (0, 1))
            with monkeypatch.context() as now:
                now.setattr(type(leader.log), "slice", unread)
                cluster.brokers[0].replicas.append(leader, bytearray(batch(3)), 1)
                await until(lambda: len(asked) > 2, "the follower asks again and again")
                assert follower.log.log_end_offset == 0
            await until(lambda: follower.log.log_end_offset == 3)
            assert follower.log.epochs.entries() == [(0, 0)]

    run(work)


def test_acks_one_and_acks_none_do_not_wait(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path) as cluster:
            cluster.create(0, 1, 2)
            cluster.kill(1)
            cluster.kill(2)
            assert (await cluster.produce(0, batch(), acks=1)).base_offset == 0
            assert (await cluster.produce(0, batch(), acks=-1, timeout_ms=50)).error_code == Code.REQUEST_TIMED_OUT
            assert (await cluster.produce(0, batch(), acks=2)).error_code == Code.INVALID_REQUIRED_ACKS

    run(work)


def test_a_new_leader_has_everything_that_was_acknowledged_and_the_others_follow_it(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path) as cluster:
            cluster.create(0, 1, 2)
            for _ in range(20):
                await cluster.produce(0, batch(3))
            cluster.kill(0)
            await until(lambda: 0 in cluster.refused, "a follower tells that its leader's address refuses")
            cluster.elect(1, (1, 2))
            slot = await cluster.produce(1, batch(3))
            assert (slot.error_code, slot.base_offset) == (0, 60)
            await cluster.boot(0)
            await until(lambda: set(cluster.image.at((7,) * 0 or cluster.brokers[0].replica().key).isr) == {0, 1, 2})
            logs = [broker.replica().log for broker in cluster.live.values()]
            assert {log.log_end_offset for log in logs} == {63}
            assert len({log.read(0, 1 << 20) for log in logs}) == 1
            assert logs[0].epochs.entries() == [(0, 0), (1, 60)]

    run(work)


def test_a_deposed_leaders_own_records_are_cut(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path) as cluster:
            cluster.create(0, 1, 2)
            await cluster.produce(0, batch(4))
            cluster.kill(1)
            cluster.kill(2)
            await cluster.produce(0, batch(7), acks=1)
            cluster.kill(0)
            await cluster.boot(1)
            cluster.elect(1, (1,))
            await cluster.produce(1, batch(2))
            await cluster.boot(0)
            await until(lambda: cluster.brokers[0].replica().log.log_end_offset == 6)
            mine, theirs = (cluster.brokers[id].replica().log for id in (0, 1))
            assert mine.read(0, 1 << 20) == theirs.read(0, 1 << 20)
            assert mine.epochs.entries() == [(0, 0), (1, 4)]

    run(work)


def test_a_follower_ahead_of_its_leaders_metadata_asks_again_soon_but_not_all_the_time(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1)
            await cluster.produce(0, batch())
            late = cluster.live.pop(0)
            cluster.elect(0, (0, 1))
            clock = cluster.world.clock
            before, began_ms = late.socket_listener.requests, clock.monotonic_ms()
            await until(lambda: late.socket_listener.requests - before >= 3, "it asks again")
            await asyncio.sleep(0.2)
            assert late.socket_listener.requests - before < 10 + (clock.monotonic_ms() - began_ms) / 10
            cluster.live[0] = late
            cluster.elect(0, (0, 1))
            assert (await cluster.produce(0, batch())).error_code == 0

    run(work)


def test_the_isr_shrinks_when_a_follower_is_gone_and_grows_when_it_is_back(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, **DROPS_SOON) as cluster:
            cluster.create(0, 1, 2)
            await cluster.produce(0, batch())
            cluster.kill(2)
            slot = await cluster.produce(0, batch())
            assert slot.error_code == 0, "acknowledged once broker 2 was dropped"
            key = cluster.brokers[0].replica().key
            assert 2 not in cluster.image.at(key).isr
            await until(lambda: cluster.image.at(key).isr == (0, 1), "broker 1 stays, or is back if it was slow")
            await cluster.boot(2)
            await until(lambda: set(cluster.image.at(key).isr) == {0, 1, 2})

    run(work)


def test_a_live_follower_that_the_controller_took_out_of_the_isr_is_back_with_its_next_fetch(tmp_path: Path) -> None:
    """Its fetch session does not name a partition whose position is the same, so that fetch must count for it."""

    async def work() -> None:
        async with DataCluster(tmp_path, replica_lag_time_max_ms="600000") as cluster:
            cluster.create(0, 1, 2, partitions=3)
            await cluster.produce(0, batch())
            key = cluster.brokers[0].replica().key
            for _ in range(3):
                cluster.change(isr=[0])
                await until(lambda: set(cluster.image.at(key).isr) == {0, 1, 2}, "back, though no sweep comes")

    run(work)


def test_a_fetch_that_waited_already_brings_nobody_back_into_the_isr(tmp_path: Path) -> None:
    """Who asked before it was taken out may be dead by now; who asks again is not, named or not."""

    async def work() -> None:
        async with DataCluster(tmp_path, 2, replica_lag_time_max_ms="600000") as cluster:
            cluster.kill(1)
            cluster.create(0, 1)
            await cluster.produce(0, batch(), acks=1)
            epoch = cluster.brokers[1].epoch
            follower = {"replica_state": FetchRequest.ReplicaState(replica_id=1, replica_epoch=epoch)}
            opening = cluster.fetch_request((0, 1), session_epoch=0, **follower)
            first: FetchResponse = await cluster.ask(0, opening, 17)

            async def again(number: int, *parts: tuple[int, int], wait_ms: int = 0) -> None:
                session = {"session_id": first.session_id, "session_epoch": number, "max_wait_ms": wait_ms}
                await cluster.ask(0, cluster.fetch_request(*parts, **session, **follower), 17)

            waiting = asyncio.create_task(again(1, wait_ms=600_000))
            await until(lambda: cluster.brokers[0].replicas.purgatory, "it waits")
            cluster.change(isr=[0])
            await cluster.produce(0, batch(), acks=1)
            await waiting
            assert not cluster.altered
            await again(2)
            assert not cluster.altered, "it is a batch behind, for all that it says"
            await again(3, (0, 2))
            await until(lambda: cluster.altered, "it has all")

    run(work)
