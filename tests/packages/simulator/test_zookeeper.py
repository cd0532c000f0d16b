"""The simulator's ZooKeeper, where it does what a real one does only now and then: lag, linger, lose."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

import pytest

from moldau.ports.zookeeper import ConnectionLoss, Ensemble, Happened, Link
from moldau.simulator.loop import Owner, SimLoop
from moldau.simulator.zookeeper import SimZooKeeper
from moldau.simulator.zookeeper_servers import SimEnsemble

CONFIG = Ensemble(connect="zk:2181", session_timeout_ms=6_000, connection_timeout_ms=3_000)


class Scene:
    def __init__(self, seed: int = 0) -> None:
        self.loop = SimLoop(random.Random(seed))
        self.ensemble = SimEnsemble(self.loop, random.Random(seed))

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            return self.loop.run_until_complete(work)
        finally:
            assert self.loop.failures == []
            self.loop.close()

    async def open(self, host: str = "client") -> SimZooKeeper:
        session = SimZooKeeper(self.ensemble, CONFIG, host)
        await session.start()
        return session

    def open_in(self, owner: Owner) -> asyncio.Task[SimZooKeeper]:
        """A session of a process that can die."""
        return self.loop.create_task(self.open(owner.name), context=owner.context.copy())


def test_a_read_may_lag_until_sync() -> None:
    lagged = 0
    for seed in range(10):
        scene = Scene(seed)

        async def play(scene: Scene = scene) -> bool:
            writer, reader = await scene.open(), await scene.open()
            for server in scene.ensemble.servers:
                server.lag_s = 1.0
            await writer.create("/a")
            behind = await reader.exists("/a") is None
            await reader.sync()
            assert await reader.exists("/a") is not None
            return behind

        lagged += scene.run(play())
    assert lagged, "no seed shows a read that lags"


def test_a_session_reads_its_own_writes() -> None:
    for seed in range(10):
        scene = Scene(seed)

        async def play(scene: Scene = scene) -> None:
            zk = await scene.open()
            for server in scene.ensemble.servers:
                server.lag_s = 0.5
            for n in range(5):
                await zk.create(f"/{n}")
                assert len(await zk.children("/")) == n + 1

        scene.run(play())


def test_the_session_of_a_dead_process_runs_out() -> None:
    scene = Scene()

    async def play() -> None:
        dead = Owner("dead")
        lost = await scene.open_in(dead)
        await scene.loop.create_task(lost.create("/e", b"", ephemeral=True), context=dead.context.copy())
        watcher = await scene.open()
        await watcher.sync()
        gone = asyncio.Event()
        await watcher.get("/e", lambda happened, _: gone.set() if happened is Happened.DELETED else None)
        dead.alive = False
        died_s = scene.loop.time()
        await gone.wait()
        assert 3.5 < scene.loop.time() - died_s < 6.5

    scene.run(play())


def test_ephemerals_may_linger_after_the_session_is_over() -> None:
    scene = Scene()

    async def play() -> None:
        zk = await scene.open()
        await zk.create("/e", b"", ephemeral=True)
        old = zk.session_id
        lost = asyncio.Event()
        zk.on_link(lambda link: lost.set() if link is Link.LOST else None)
        scene.ensemble.expire(old, linger_s=5)
        await lost.wait()
        await zk.reopen()
        stat = await zk.exists("/e")
        assert stat is not None
        assert stat.ephemeral_owner == old != zk.session_id
        await asyncio.sleep(6)
        assert await zk.exists("/e") is None

    scene.run(play())


def test_a_write_under_way_when_its_session_ends_is_not_made() -> None:
    """Servers made it, a millisecond after /controller had gone with the session: law Z6 said that a controller that
    was none any more had written (seed 323 of expire-controller). Apache ZooKeeper's leader asks for the session first
    (PrepRequestProcessor, checkSession)."""
    refused = 0
    for seed in range(20):
        scene = Scene(seed)

        async def play(scene: Scene = scene) -> bool:
            zk = await scene.open()
            await zk.sync()
            ended: list[int] = []
            scene.ensemble.witnesses.append(lambda session, ops, changes: ended.append(session) if ended else None)
            write = asyncio.ensure_future(zk.create("/late", b"", ephemeral=True))
            await asyncio.sleep(random.Random(scene.ensemble.rng.random()).random() * 0.002)
            made = "/late" in scene.ensemble.tree.znodes
            ended.append(-1)
            scene.ensemble.expire(zk.session_id)
            (answer,) = await asyncio.gather(write, return_exceptions=True)
            assert made or isinstance(answer, ConnectionLoss)
            await asyncio.sleep(1)
            assert ended[1:] in ([], [0]), "only the servers write for a session that has ended"
            assert "/late" not in scene.ensemble.tree.znodes, "nobody would ever remove it"
            return not made

        refused += scene.run(play())
    assert refused, "no seed ends a session while a write of it is under way"


def test_a_cut_link_suspends_and_a_long_one_ends_the_session() -> None:
    for cut_s, ends in ((0.1, [Link.SUSPENDED, Link.CONNECTED]), (20.0, [Link.SUSPENDED, Link.LOST])):
        scene = Scene()

        async def play(cut_s: float = cut_s, ends: list[Link] = ends, scene: Scene = scene) -> None:
            zk = await scene.open("node-1")
            links: list[Link] = []
            zk.on_link(links.append)
            scene.ensemble.refuses = lambda client, server: "node-1" in (client, server)
            with pytest.raises(ConnectionLoss):
                await zk.create("/never")
            await asyncio.sleep(cut_s)
            scene.ensemble.refuses = lambda client, server: False
            await asyncio.sleep(3)
            assert links == ends

        scene.run(play())


def test_a_connection_that_breaks_as_it_is_opened_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """It told that it stood after it had told that it broke, and nobody mended it (seed 60 of whole clusters)."""
    scene = Scene()
    told: list[Link] = []
    entered = SimZooKeeper._enter_root

    async def enters_and_breaks(self: SimZooKeeper) -> None:
        await entered(self)
        self.broken()

    async def play() -> None:
        session = SimZooKeeper(scene.ensemble, CONFIG)
        session.on_link(told.append)
        monkeypatch.setattr(SimZooKeeper, "_enter_root", enters_and_breaks)
        await session.start()
        await asyncio.sleep(3)
        await session.create("/a")
        assert told == [Link.SUSPENDED, Link.CONNECTED]

    scene.run(play())


def test_nobody_answers_is_a_connection_loss_in_time() -> None:
    scene = Scene()

    async def play() -> None:
        scene.ensemble.refuses = lambda client, server: True
        with pytest.raises(ConnectionLoss):
            await scene.open()
        assert scene.loop.time() < 4

    scene.run(play())


def test_a_write_whose_answer_was_lost_happened_in_some_seeds_and_not_in_others() -> None:
    seen = set()
    for seed in range(40):
        scene = Scene(seed)

        async def play(scene: Scene = scene) -> bool:
            zk, other = await scene.open(), await scene.open()
            calls = [asyncio.ensure_future(zk.create("/x"))]
            await asyncio.sleep(scene.ensemble.rng.random() * 0.002)
            zk.broken()
            (answer,) = await asyncio.gather(*calls, return_exceptions=True)
            await asyncio.sleep(1)
            await other.sync()
            return isinstance(answer, ConnectionLoss) and await other.exists("/x") is not None

        seen.add(scene.run(play()))
    assert seen == {True, False}


@pytest.mark.parametrize(("bounds_s", "given_ms"), [((0.0, 2.0), 2_000), ((9.0, 40.0), 9_000), ((4.0, 40.0), 6_000)])
def test_servers_bound_the_time_of_a_session_and_go_by_it(bounds_s: tuple[float, float], given_ms: int) -> None:
    scene = Scene()
    scene.ensemble.timeouts_s = bounds_s

    async def play() -> float:
        session = await scene.open()
        assert session.session_timeout_ms == given_ms
        await session.create("/a", ephemeral=True)
        ended = asyncio.Event()
        scene.ensemble.witnesses.append(lambda session, ops, changes: ended.set())
        scene.ensemble.refuses = lambda one, other: "client" in (one, other)  # from now on nobody hears of it
        heard_s = scene.loop.time()
        await asyncio.wait_for(ended.wait(), 100)
        assert "/a" not in scene.ensemble.tree.znodes
        return (scene.loop.time() - heard_s) * 1000

    assert given_ms * 2 / 3 < scene.run(play()) < given_ms + 1_000
