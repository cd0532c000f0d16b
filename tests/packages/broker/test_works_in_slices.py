"""Answers in slices: some are begun at once, some go on in a turn of the loop, all end, and nothing else waits."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

from moldau.broker.loop import WORKS_AT_ONCE, answer_in_slices, run_in_slices
from moldau.runtime.world import RealTasks


def test_of_many_works_few_hold_what_they_have_made_and_the_loop_turns_between_them() -> None:
    """A thousand questions that were let in at once each held their answers' items until the last one was through."""

    async def work() -> None:
        loop = asyncio.get_running_loop()
        tasks = RealTasks(loop, lambda name, error: None)
        begun = ended = most = in_turn = most_in_turn = 0

        def turned() -> None:
            nonlocal in_turn
            in_turn = 0
            if ended < 100:
                loop.call_soon(turned)

        def one() -> Generator[None, None, int]:
            nonlocal begun, ended, most, in_turn, most_in_turn
            begun += 1
            for _ in range(5):
                most = max(most, begun - ended)
                yield
                in_turn += 1
                most_in_turn = max(most_in_turn, in_turn)
            ended += 1
            return ended

        loop.call_soon(turned)
        found = await asyncio.gather(*(answer_in_slices(tasks, 3, one()) for _ in range(100)))
        assert sorted(found) == list(range(1, 101))
        assert most <= WORKS_AT_ONCE
        assert most_in_turn <= 2, "our own count is of turns, too, and may be one late"

    asyncio.run(work())


def test_a_work_that_is_given_up_leaves_its_place_to_others() -> None:
    async def work() -> None:
        tasks = RealTasks(asyncio.get_running_loop(), lambda name, error: None)

        def endless() -> Generator[None, None, None]:
            while True:
                yield

        def short() -> Generator[None, None, str]:
            yield
            return "done"

        held = [asyncio.ensure_future(answer_in_slices(tasks, 3, endless())) for _ in range(2 * WORKS_AT_ONCE)]
        waiting = asyncio.ensure_future(answer_in_slices(tasks, 3, short()))
        for _ in range(50):
            await asyncio.sleep(0)
        assert not waiting.done()
        assert await answer_in_slices(tasks, 9, short()) == "done", "nor does a question of another kind"
        assert await run_in_slices(tasks, short()) == "done", "what a node does for itself stands behind no question"
        for one in held:
            one.cancel()
        assert await waiting == "done"

    asyncio.run(work())
