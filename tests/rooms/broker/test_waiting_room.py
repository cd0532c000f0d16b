"""The waiting room: time, one look per turn, and no memory of who has left."""

from __future__ import annotations

import asyncio

from moldau.broker.waiting_room import STALE_MAX, Promise, WaitingRoom
from moldau.runtime.world import real_world
from moldau.terms import Code
from moldau.wire.messages.k00_produce import ProduceResponse
from tests.rooms.broker.data_cluster import run, until

Slot = ProduceResponse.PartitionProduceResponse


def room() -> WaitingRoom:
    return WaitingRoom(real_world(asyncio.get_running_loop(), lambda task, error: None))


def test_a_promise_is_kept_when_all_its_parts_are_and_late_parts_time_out() -> None:
    async def work() -> None:
        waiting = room()
        response = ProduceResponse()
        kept, late = Promise(waiting, response), Promise(waiting, response)
        slots = [Slot(index=n) for n in range(4)]
        for promise, slot in ((kept, slots[0]), (kept, slots[1]), (late, slots[2]), (late, slots[3])):
            promise.expect(slot)
        waiting.park(kept, 60_000)
        waiting.park(late, 20)
        kept.settle(slots[0], Code.NONE)
        late.settle(slots[2], Code.NONE)
        assert not kept.answer.done()
        kept.settle(slots[1], Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        assert kept.answer.done()
        assert await late.answer is response
        late.settle(slots[3], Code.NONE)
        assert [slot.error_code for slot in slots] == [0, 20, 0, 7]
        assert len(waiting) == 0

    run(work)


def test_who_was_answered_is_forgotten_long_before_its_time() -> None:
    async def work() -> None:
        waiting = room()
        for _ in range(20 * STALE_MAX):
            promise, slot = Promise(waiting, ProduceResponse()), Slot()
            promise.expect(slot)
            waiting.park(promise, 3_600_000)
            promise.settle(slot, Code.NONE)
        assert len(waiting._heap) <= STALE_MAX + 1
        waiting.close()

    run(work)


def test_a_waiter_called_often_in_a_turn_looks_once() -> None:
    class Once:
        done = False
        looks = 0

        def look(self) -> None:
            self.looks += 1

        def expire(self) -> None:
            self.done = True

    async def work() -> None:
        waiting, waiter = room(), Once()
        waiting.park(waiter, 60_000)
        for _ in range(50):
            waiting.call(waiter)
        await until(lambda: waiter.looks)
        assert waiter.looks == 1
        waiting.close()
        assert waiter.done

    run(work)
