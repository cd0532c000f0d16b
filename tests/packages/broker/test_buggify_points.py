"""What others get when a broker takes a buggify point: less, nothing, or a refusal; never something wrong."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from moldau.broker.kraft.delivery import LATE_MS
from moldau.model import Code
from moldau.model.value import replace
from moldau.ports import buggify
from moldau.wire.batch import headers
from moldau.wire.messages.k57_update_features import UpdateFeaturesRequest
from tests.packages.broker.data_cluster import DROPS_SOON, DataCluster, batch, run, until
from tests.packages.broker.test_controller_channel import FOREVER_MS, ScriptedNode, said
from tests.packages.broker.test_delivery import Bench, RecordingListener


class Takes:
    """Takes the given points, each as often as it is given."""

    def __init__(self, *points: str) -> None:
        self.left = list(points)

    def __call__(self, point: str) -> bool:
        if point not in self.left:
            return False
        self.left.remove(point)
        return True


def cluster(folder: Path, brokers: int, takes: Takes, **settings: str) -> DataCluster:
    """Brokers of which the first to reach a point takes it."""
    made = DataCluster(folder, brokers, **settings)
    made.world = replace(made.world, buggify=takes)
    return made


def bases(data: Any) -> list[int]:
    return [header.base_offset for _, header in headers(data.records)]


def test_a_short_fetch_brings_one_batch_and_the_next_the_rest(tmp_path: Path) -> None:
    async def work() -> None:
        takes = Takes()
        async with cluster(tmp_path, 1, takes) as one:
            one.create(0)
            for _ in range(3):
                await one.produce(0, batch())
            takes.left = [buggify.SHORT_FETCH]
            assert bases(await one.fetch(0, 0)) == [0]
            assert bases(await one.fetch(0, 1)) == [1, 2]

    run(work)


def test_an_empty_fetch_does_not_wait(tmp_path: Path) -> None:
    async def work() -> None:
        async with cluster(tmp_path, 1, Takes(buggify.EMPTY_FETCH)) as one:
            one.create(0)
            assert not (await one.fetch(0, 0, max_wait_ms=FOREVER_MS)).records

    run(work)


def test_a_refused_produce_appends_nothing(tmp_path: Path) -> None:
    async def work() -> None:
        async with cluster(tmp_path, 1, Takes(buggify.REFUSED_PRODUCE)) as one:
            one.create(0)
            assert (await one.produce(0, batch())).error_code == Code.NOT_LEADER_OR_FOLLOWER
            assert one.brokers[0].replica().log.log_end_offset == 0
            assert (await one.produce(0, batch())).error_code == Code.NONE

    run(work)


def test_a_segment_may_end_at_any_batch(tmp_path: Path) -> None:
    async def work() -> None:
        takes = Takes()
        async with cluster(tmp_path, 1, takes) as one:
            one.create(0)
            await one.produce(0, batch(2))
            takes.left = [buggify.EARLY_ROLL]
            await one.produce(0, batch())
            assert one.brokers[0].replica().log.active.base_offset == 2
            assert bases(await one.fetch(0, 0)) == [0]
            assert bases(await one.fetch(0, 2)) == [2]

    run(work)


def test_a_follower_opens_another_session_when_its_own_is_lost(tmp_path: Path) -> None:
    async def work() -> None:
        takes = Takes(*[buggify.LOST_SESSION] * 3)
        async with cluster(tmp_path, 2, takes) as two:
            two.create(0, 1)
            for n in range(8):
                assert (await two.produce(0, batch())).error_code == Code.NONE, n
            await until(lambda: not takes.left, "sessions were lost")
            await until(lambda: two.brokers[1].replica().log.log_end_offset == 8, "the follower has everything")

    run(work)


def test_a_connection_that_ends_after_an_answer_has_brought_it(tmp_path: Path) -> None:
    async def work() -> None:
        takes = Takes()
        async with cluster(tmp_path, 1, takes) as one:
            one.create(0)
            await one.produce(0, batch())
            takes.left = [buggify.CLOSED_CONNECTION]
            assert bases(await one.fetch(0, 0)) == [0]
            await until(lambda: one.lines[0].closed, "the connection is closed")
            await until(lambda: len(one.brokers[0].socket_listener.connections) == 0, "at the broker's end as well")

    run(work)


@pytest.mark.parametrize("point", [buggify.UNHEARD_ISR, buggify.LATE_ISR])
def test_an_isr_shrinks_though_its_proposal_is_late_or_its_answer_lost(tmp_path: Path, point: str) -> None:
    async def work() -> None:
        takes = Takes(point)
        async with cluster(tmp_path, 2, takes, **DROPS_SOON) as two:
            two.create(0, 1)
            two.kill(1)
            two.commit(two.dead(1))
            assert (await two.produce(0, batch())).error_code == Code.NONE
            await until(lambda: two.brokers[0].replica().machine.isr == (0,), "the ISR has shrunk")
            assert not takes.left

    run(work)


def test_who_does_not_reach_the_controller_asks_again() -> None:
    async def work() -> None:
        node = ScriptedNode(said(Code.NONE))
        node.world = replace(node.world, buggify=Takes(buggify.UNREACHED_CONTROLLER))
        asked = asyncio.ensure_future(node.controller_channel.send_with_retry(UpdateFeaturesRequest(), FOREVER_MS))
        await until(lambda: node.tasks.timers, "it waits")
        assert len(node.answers) == 1, "nothing was asked"
        node.tasks.timers[0]()
        assert (await asked).error_code == Code.NONE

    run(work)


def test_what_is_delivered_late_keeps_its_order() -> None:
    listener = RecordingListener()
    bench = Bench(listener)
    bench.delivery._buggify = Takes(buggify.LATE_DELIVERY)
    bench.delivery.became_active(3)
    bench.delivery.lost_active()
    assert listener.heard == []
    (timer,) = bench.tasks.timers
    assert timer.delay_ms == LATE_MS
    timer()
    assert listener.heard == ["active in 3", "lost"]
