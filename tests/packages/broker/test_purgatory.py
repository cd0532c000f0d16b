"""The purgatory of delayed operations: time, one look per turn, and no memory of who has left."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from moldau.broker.purgatory import A_TURN_NS, STALE_MAX, DelayedOperationPurgatory, DelayedResponse
from moldau.broker.replicas.fetch.reader import DelayedFetch
from moldau.client.connection import connect
from moldau.model import Code
from moldau.model.value import replace
from moldau.runtime.world import real_world
from moldau.wire.messages.k00_produce import ProduceResponse
from tests.packages.broker.data_cluster import DataCluster, batch, run, until
from tests.packages.manual_clock import ManualClock

Slot = ProduceResponse.PartitionProduceResponse


def purgatory() -> DelayedOperationPurgatory:
    return DelayedOperationPurgatory(real_world(asyncio.get_running_loop(), lambda task, error: None))


def test_a_delayed_response_is_complete_when_all_its_parts_are_and_late_parts_time_out() -> None:
    async def work() -> None:
        waiting = purgatory()
        response = ProduceResponse()
        kept, late = DelayedResponse(waiting, response), DelayedResponse(waiting, response)
        slots = [Slot(index=n) for n in range(4)]
        for delayed, slot in ((kept, slots[0]), (kept, slots[1]), (late, slots[2]), (late, slots[3])):
            delayed.expect(slot)
        waiting.park(kept, 60_000)
        waiting.park(late, 20)
        kept.complete(slots[0], Code.NONE)
        late.complete(slots[2], Code.NONE)
        assert not kept.answer.done()
        kept.complete(slots[1], Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        assert kept.answer.done()
        assert await late.answer is response
        late.complete(slots[3], Code.NONE)
        assert [slot.error_code for slot in slots] == [0, 20, 0, 7]
        assert len(waiting) == 0

    run(work)


def test_who_was_answered_is_forgotten_long_before_its_time() -> None:
    async def work() -> None:
        waiting = purgatory()
        for _ in range(20 * STALE_MAX):
            delayed, slot = DelayedResponse(waiting, ProduceResponse()), Slot()
            delayed.expect(slot)
            waiting.park(delayed, 3_600_000)
            delayed.complete(slot, Code.NONE)
        assert len(waiting._heap) <= STALE_MAX + 1
        waiting.close()

    run(work)


def test_a_waiter_called_often_in_a_turn_looks_once() -> None:
    class Once:
        done = False
        kind = "Fetch"
        looks = 0

        def try_complete(self) -> None:
            self.looks += 1

        def expire(self) -> None:
            self.done = True

        def abandon(self) -> None:
            raise AssertionError("nobody went away")

        def fail(self, error: Exception) -> None:
            raise error

    async def work() -> None:
        waiting, waiter = purgatory(), Once()
        waiting.park(waiter, 60_000)
        for _ in range(50):
            waiting.notify(waiter)
        await until(lambda: waiter.looks)
        assert waiter.looks == 1
        waiting.close()
        assert waiter.done

    run(work)


class Slow:
    """A waiter at which a look takes long."""

    kind = "Fetch"

    def __init__(self, waiting: DelayedOperationPurgatory, clock: ManualClock) -> None:
        self.done = False
        self._waiting, self._clock = waiting, clock

    def try_complete(self) -> None:
        self._clock.now_ms += A_TURN_NS // 2_000_000
        self.done = True
        self._waiting.left()

    expire = try_complete

    def abandon(self) -> None:
        raise AssertionError("nobody went away")

    def fail(self, error: Exception) -> None:
        raise error


@pytest.mark.parametrize("why", ["called", "late"])
def test_of_many_who_are_called_or_late_at_once_some_are_looked_at_in_each_turn_in_order(why: str) -> None:
    """A thousand consumers of one partition were answered in one turn of the loop, which took 40 ms."""

    async def work() -> None:
        clock = ManualClock()
        world = real_world(asyncio.get_running_loop(), lambda task, error: None)
        waiting = DelayedOperationPurgatory(replace(world, clock=clock))
        slow = [Slow(waiting, clock) for _ in range(9)]
        for waiter in slow:
            waiting.park(waiter, 60_000 if why == "called" else 1)
        if why == "called":
            for waiter in slow:
                waiting.notify(waiter)
        else:
            clock.now_ms = 1
        seen = [0]
        while seen[-1] < len(slow):
            await asyncio.sleep(0)
            done = [waiter.done for waiter in slow]
            assert done == sorted(done, reverse=True), "in the order in which they came"
            if sum(done) != seen[-1]:
                seen.append(sum(done))
        assert seen == [0, 2, 4, 6, 8, 9]
        assert len(waiting) == 0
        waiting.close()

    run(work)


def test_who_is_called_while_others_still_wait_for_a_look_comes_behind_them() -> None:
    async def work() -> None:
        clock = ManualClock()
        world = real_world(asyncio.get_running_loop(), lambda task, error: None)
        waiting = DelayedOperationPurgatory(replace(world, clock=clock))
        slow = [Slow(waiting, clock) for _ in range(6)]
        for waiter in slow:
            waiting.park(waiter, 60_000)
        for waiter in slow[:5]:
            waiting.notify(waiter)
        await until(lambda: slow[0].done)
        waiting.notify(slow[5])
        await until(lambda: slow[5].done)
        assert all(waiter.done for waiter in slow[:5])
        waiting.close()

    run(work)


def test_a_waiter_that_cannot_be_looked_at_fails_alone_and_the_others_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0, partitions=2)
            await cluster.produce(0, batch())
            await cluster.produce(0, batch(), number=1)
            broker = cluster.brokers[0]
            lines = [await connect(cluster.world, "127.0.0.1", broker.port) for _ in range(2)]
            asks = [
                asyncio.ensure_future(line.ask(cluster.fetch_request((number, 1), max_wait_ms=600_000), version=17))
                for number, line in enumerate(lines)
            ]
            await until(lambda: len(broker.replicas.purgatory) == 2, "both wait")

            waits = [wait for _, _, wait in broker.replicas.purgatory._heap]  # and produce requests that were answered
            whole, first = DelayedFetch.try_complete, next(wait for wait in waits if isinstance(wait, DelayedFetch))

            def try_complete(self: DelayedFetch) -> None:
                if self is first:
                    raise OSError("the disk does not answer")
                whole(self)

            monkeypatch.setattr(DelayedFetch, "try_complete", try_complete)
            for number in range(2):
                await cluster.produce(0, batch(), number=number)
            done = await asyncio.gather(*asks, return_exceptions=True)
            assert sorted(isinstance(one, Exception) for one in done) == [False, True]
            assert [type(error) for error in broker.failures] == [OSError]
            broker.failures.clear()
            for line in lines:
                line.close()

    run(work)


@pytest.mark.parametrize("what", ["fetch", "produce"])
def test_who_waits_on_a_connection_waits_no_longer_than_it_lasts(tmp_path: Path, what: str) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1)
            await cluster.produce(0, batch())
            cluster.kill(1)
            waits = cluster.brokers[0].replicas.purgatory
            await until(lambda: not len(waits), "the follower is gone, and so is its wait")
            if what == "fetch":
                asked = asyncio.ensure_future(cluster.fetch(0, 1, max_wait_ms=600_000))
            else:
                asked = asyncio.ensure_future(cluster.produce(0, batch(), timeout_ms=600_000))  # type: ignore[arg-type]
            await until(lambda: len(waits) == 1, "it waits")
            cluster.lines.pop(0).close()
            await until(lambda: not len(waits), "its wait ended with the connection")
            assert isinstance((await asyncio.gather(asked, return_exceptions=True))[0], OSError)

    run(work)
