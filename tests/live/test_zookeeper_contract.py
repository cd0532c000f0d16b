"""What the port promises of ZooKeeper, held against a real server and against the simulator's, by several seeds.

A case is a coroutine that gets a world: it opens sessions, breaks their connections, has the server end them. What the
simulator alone can do (reads that lag, seeds) is tested where the simulator is.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from moldau.cluster.ensemble import LocalEnsemble
from moldau.ports.zookeeper import (
    BadVersion,
    CheckVersion,
    ConnectionLoss,
    Create,
    Delete,
    Ensemble,
    Happened,
    Link,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    SessionExpired,
    Set,
    ZooKeeper,
)
from moldau.simulator.loop import SimLoop
from moldau.simulator.zookeeper import SimZooKeeper
from moldau.simulator.zookeeper_servers import SimEnsemble
from moldau.zookeeper.link import ZooKeeperClient
from moldau.zookeeper.session import Session

pytestmark = pytest.mark.live

TIMEOUT_MS = 10_000
REAL_TIMEOUT_MS = 60_000
"""As long as the server grants: what ends here is ended by a case, not by a machine that stood still."""
GRACE_S = 120


class RealWorld:
    """A real server; every case has a chroot of its own."""

    def __init__(self, connect: str, chroot: str) -> None:
        self.connect = f"{connect}/{chroot}"
        self.opened: list[Session] = []

    async def open(self) -> Session:
        config = Ensemble(connect=self.connect, session_timeout_ms=REAL_TIMEOUT_MS, connection_timeout_ms=60_000)
        session = Session(config)
        await session.start()
        self.opened.append(session)
        return session

    async def expire(self, session: Session) -> None:
        """Another connection takes the session over and closes it: the server ends it."""
        client = ZooKeeperClient(self.connect.partition("/")[0], REAL_TIMEOUT_MS, lambda _: None)
        client._session_id, client._session_passwd = session.session_id, session.password
        event = client.start_async()
        await asyncio.to_thread(event.wait, GRACE_S)
        await asyncio.to_thread(client.leave)

    async def break_connection(self, session: Session) -> None:
        assert session._client is not None
        session._client._connection._socket.shutdown(2)


class SimWorld:
    """The simulator's servers, by a seed."""

    def __init__(self, ensemble: SimEnsemble) -> None:
        self.ensemble = ensemble
        self.opened: list[SimZooKeeper] = []

    async def open(self) -> SimZooKeeper:
        config = Ensemble(connect="sim:2181/case", session_timeout_ms=TIMEOUT_MS, connection_timeout_ms=20_000)
        session = SimZooKeeper(self.ensemble, config)
        await session.start()
        self.opened.append(session)
        return session

    async def expire(self, session: SimZooKeeper) -> None:
        self.ensemble.expire(session.session_id)

    async def break_connection(self, session: SimZooKeeper) -> None:
        session.broken()


Case = Callable[[Any], Awaitable[None]]
CASES: list[Case] = []


def case(function: Case) -> Case:
    CASES.append(function)
    return function


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with LocalEnsemble(tmp_path_factory.mktemp("zookeeper")) as ensemble:
        yield ensemble.connect


async def played(world: Any, each: Case) -> None:
    try:
        await asyncio.wait_for(each(world), GRACE_S)
    finally:
        await asyncio.gather(*(session.stop() for session in world.opened))


class Heard:
    """Watches and links as they are told; ``next`` waits for one."""

    def __init__(self) -> None:
        self.all: list[Any] = []
        self._news = asyncio.Event()

    def watch(self, happened: Happened, path: str) -> None:
        self.all.append((happened, path))
        self._news.set()

    def link(self, link: Link) -> None:
        self.all.append(link)
        self._news.set()

    async def until(self, count: int) -> list[Any]:
        while len(self.all) < count:
            self._news.clear()
            await self._news.wait()
        return self.all


@case
async def what_is_created_is_there_with_version_0(world: Any) -> None:
    zk: ZooKeeper = await world.open()
    assert await zk.create("/a", b"x") == "/a"
    data, stat = await zk.get("/a")
    assert (data, stat.version, stat.ephemeral_owner) == (b"x", 0, 0)
    assert stat.czxid == stat.mzxid > 0
    assert await zk.exists("/b") is None
    assert await zk.exists("/a") == stat
    assert await zk.get_many(["/a", "/b", "/a"]) == [(b"x", stat), None, (b"x", stat)]
    assert await zk.children("/") == ["a"]


@case
async def errors_name_the_znode(world: Any) -> None:
    zk: ZooKeeper = await world.open()
    await zk.create("/a")
    for error, call in (
        (NodeExists, lambda: zk.create("/a")),
        (NoNode, lambda: zk.create("/b/c")),
        (NoNode, lambda: zk.get("/b")),
        (NoNode, lambda: zk.children("/b")),
        (NoNode, lambda: zk.set("/b", b"")),
        (NoNode, lambda: zk.delete("/b")),
    ):
        with pytest.raises(error) as caught:
            await call()
        assert caught.value.path in ("/a", "/b", "/b/c")
    await zk.create("/a/b")
    with pytest.raises(NotEmpty):
        await zk.delete("/a")


@case
async def a_version_guards_a_write(world: Any) -> None:
    zk: ZooKeeper = await world.open()
    await zk.create("/a")
    assert (await zk.set("/a", b"1", 0)).version == 1
    with pytest.raises(BadVersion):
        await zk.set("/a", b"2", 0)
    with pytest.raises(BadVersion):
        await zk.delete("/a", 0)
    assert (await zk.set("/a", b"3")).version == 2
    await zk.delete("/a", 2)
    await zk.create("/a")
    assert (await zk.get("/a"))[1].version == 0


@case
async def sequential_names_grow(world: Any) -> None:
    zk: ZooKeeper = await world.open()
    await zk.create("/s")
    first = await zk.create("/s/n_", b"", sequential=True)
    second = await zk.create("/s/n_", b"", sequential=True)
    results = await zk.multi([Create(path="/s/n_", sequential=True), Create(path="/s/n_", sequential=True)])
    made = [first, second, *(str(each) for each in results)]
    assert made == sorted(set(made))
    assert all(len(each) == len("/s/n_") + 10 for each in made)
    await zk.delete(made[3])
    assert await zk.create("/s/n_", b"", sequential=True) > made[3]


@case
async def an_ephemeral_znode_goes_with_its_session(world: Any) -> None:
    one: ZooKeeper = await world.open()
    two: ZooKeeper = await world.open()
    heard = Heard()
    await one.create("/e", b"", ephemeral=True)
    await two.sync()
    stat = await two.exists("/e", heard.watch)
    assert stat is not None
    assert stat.ephemeral_owner == one.session_id != two.session_id
    await one.stop()
    assert await heard.until(1) == [(Happened.DELETED, "/e")]
    assert await two.exists("/e") is None


@case
async def a_transaction_is_all_or_nothing(world: Any) -> None:
    zk: ZooKeeper = await world.open()
    await zk.create("/epoch", b"7")
    with pytest.raises(BadVersion) as caught:
        await zk.multi([Create(path="/a"), CheckVersion(path="/epoch", version=1), Set(path="/epoch", data=b"8")])
    assert caught.value.path == "/epoch"
    assert await zk.exists("/a") is None
    with pytest.raises(NoNode) as missing:
        await zk.multi([Set(path="/epoch", data=b"8", version=0), Delete(path="/gone"), Create(path="/a")])
    assert missing.value.path == "/gone"
    assert (await zk.get("/epoch"))[0] == b"7"
    results = await zk.multi(
        [
            CheckVersion(path="/epoch", version=0),
            Create(path="/a"),
            Create(path="/a/b", data=b"x"),
            Set(path="/a/b", data=b"y", version=0),
            Set(path="/a/b", data=b"z", version=1),
            Delete(path="/a/b", version=2),
            Delete(path="/a"),
        ]
    )
    assert results[:3] == [None, "/a", "/a/b"]
    assert [results[n].version for n in (3, 4)] == [1, 2]  # type: ignore[union-attr]
    assert results[5:] == [None, None]
    assert await zk.multi([]) == []


@case
async def what_one_transaction_wrote_bears_one_id(world: Any) -> None:
    zk: ZooKeeper = await world.open()
    await zk.create("/a")
    await zk.create("/c")
    written: list[Op] = [Set(path="/a", data=b"1"), Create(path="/b"), Set(path="/b", data=b"2"), Create(path="/b/d")]
    await zk.multi(written)
    a, b, d, c = (stat for _, stat in [await zk.get(path) for path in ("/a", "/b", "/b/d", "/c")])
    assert a.mzxid == b.mzxid == d.mzxid == b.czxid > c.mzxid
    await zk.set("/a", b"3")
    assert (await zk.get("/a"))[1].mzxid > b.mzxid


@case
async def a_transaction_may_delete_and_create_again(world: Any) -> None:
    zk: ZooKeeper = await world.open()
    await zk.create("/t", b"old")
    await zk.set("/t", b"older")
    await zk.multi([Delete(path="/t"), Create(path="/t", data=b"new")])
    data, stat = await zk.get("/t")
    assert (data, stat.version) == (b"new", 0)


@case
async def a_watch_fires_once_and_before_the_change_is_read(world: Any) -> None:
    writer: ZooKeeper = await world.open()
    reader: ZooKeeper = await world.open()
    await writer.create("/w", b"0")
    await reader.sync()
    for n in range(1, 20):
        heard = Heard()
        before, _ = await reader.get("/w", heard.watch)
        assert before == str(n - 1).encode()
        changing = asyncio.ensure_future(writer.set("/w", str(n).encode()))
        while (await reader.get("/w"))[0] == before:
            pass
        assert heard.all == [(Happened.CHANGED, "/w")]
        await changing
    await writer.set("/w", b"again")
    await reader.sync()
    assert len(heard.all) == 1


@case
async def watches_tell_of_creation_deletion_and_children(world: Any) -> None:
    zk: ZooKeeper = await world.open()
    heard = Heard()
    assert await zk.exists("/p", heard.watch) is None
    await zk.create("/p")
    assert await heard.until(1) == [(Happened.CREATED, "/p")]
    await zk.children("/p", heard.watch)
    await zk.get("/p", heard.watch)
    await zk.create("/p/c")
    assert (await heard.until(2))[1:] == [(Happened.CHILDREN, "/p")]
    await zk.children("/p", heard.watch)
    await zk.set("/p/c", b"a change of a child's data is no change of the list")
    await zk.delete("/p/c")
    assert (await heard.until(3))[2:] == [(Happened.CHILDREN, "/p")]
    await zk.children("/p", heard.watch)
    await zk.delete("/p")
    assert (await heard.until(5))[3:] == [(Happened.DELETED, "/p")] * 2
    with pytest.raises(NoNode):
        await zk.get("/p", heard.watch)
    await zk.create("/p")
    await zk.sync()
    assert len(heard.all) == 5, "a get that fails leaves no watch"


@case
async def a_broken_connection_keeps_the_session_its_ephemerals_and_its_watches(world: Any) -> None:
    zk: ZooKeeper = await world.open()
    other: ZooKeeper = await world.open()
    links, heard, quiet = Heard(), Heard(), Heard()
    zk.on_link(links.link)
    session = zk.session_id
    await zk.create("/e", b"", ephemeral=True)
    await zk.create("/d", b"0")
    await zk.create("/gone")
    await zk.get("/d", heard.watch)
    await zk.exists("/new", heard.watch)
    await zk.children("/", heard.watch)
    await zk.get("/gone", heard.watch)
    await zk.get("/e", quiet.watch)
    await world.break_connection(zk)
    assert (await links.until(1))[0] is Link.SUSPENDED
    # Somebody else changes things before this session has found another server.
    await other.multi([Set(path="/d", data=b"1"), Create(path="/new"), Delete(path="/gone")])
    assert (await links.until(2))[:2] == [Link.SUSPENDED, Link.CONNECTED]
    told = await heard.until(4)
    assert set(told) == {
        (Happened.CHANGED, "/d"),
        (Happened.CREATED, "/new"),
        (Happened.CHILDREN, "/"),
        (Happened.DELETED, "/gone"),
    }
    assert zk.session_id == session
    assert (await zk.get("/e"))[1].ephemeral_owner == session
    assert quiet.all == []
    await zk.set("/e", b"x")
    assert await quiet.until(1) == [(Happened.CHANGED, "/e")]
    await zk.sync()
    assert len(heard.all) == 4


@case
async def a_call_under_way_when_the_connection_breaks_is_lost_or_answered(world: Any) -> None:
    zk: ZooKeeper = await world.open()
    links = Heard()
    zk.on_link(links.link)
    calls = [asyncio.ensure_future(zk.create(f"/c{n}")) for n in range(50)]
    await asyncio.sleep(0)
    await world.break_connection(zk)
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(each, str | ConnectionLoss) for each in answers), answers
    while Link.CONNECTED not in links.all:
        await links.until(len(links.all) + 1)
    await zk.sync()
    there = await zk.children("/")
    for n, answer in enumerate(answers):
        if isinstance(answer, str):
            assert f"c{n}" in there, "what was answered has happened"


@case
async def a_session_that_the_server_ended_is_lost_until_it_is_reopened(world: Any) -> None:
    zk: ZooKeeper = await world.open()
    other: ZooKeeper = await world.open()
    links, old = Heard(), Heard()
    zk.on_link(links.link)
    first = zk.session_id
    await zk.create("/e", b"mine", ephemeral=True)
    await zk.create("/d")
    await zk.get("/d", old.watch)
    gone = Heard()
    await other.sync()
    await other.get("/e", gone.watch)
    await world.expire(zk)
    assert await gone.until(1) == [(Happened.DELETED, "/e")]
    while Link.LOST not in links.all:
        await links.until(len(links.all) + 1)
    for call in (zk.create("/e", b"", ephemeral=True), zk.get("/d"), zk.sync(), zk.multi([Delete(path="/d")])):
        with pytest.raises(SessionExpired):
            await call
    await other.sync()
    assert await other.exists("/e") is None, "nothing of the old session is done in a new one"
    await zk.reopen()
    assert zk.session_id not in (0, first)
    await zk.create("/e", b"", ephemeral=True)
    await zk.set("/d", b"x")
    await zk.sync()
    assert old.all == [], "watches of the old session never fire"
    assert links.all[-1] is Link.CONNECTED


@case
async def nothing_is_made_for_a_session_that_has_ended(world: Any) -> None:
    """Else an ephemeral znode would outlive the session that would have removed it, /controller for one."""
    zk: ZooKeeper = await world.open()
    other: ZooKeeper = await world.open()
    await zk.create("/d")

    async def write(writer: int) -> None:
        n = 0
        while True:
            await zk.create(f"/d/{writer}-{n}", ephemeral=True)
            n += 1

    writers = [asyncio.ensure_future(write(writer)) for writer in range(8)]
    while not (await zk.children("/d")):
        pass  # a look takes as long as it takes to ask
    await world.expire(zk)
    for answer in await asyncio.gather(*writers, return_exceptions=True):
        assert isinstance(answer, ConnectionLoss | SessionExpired), answer
    await other.sync()
    assert await other.children("/d") == []


@case
async def many_znodes_are_read_at_once(world: Any) -> None:
    zk: ZooKeeper = await world.open()
    for at in range(0, 2_000, 500):
        await zk.multi([Create(path=f"/n{n}", data=str(n).encode()) for n in range(at, at + 500)])
    found = await zk.get_many([f"/n{n}" for n in range(2_000)])
    assert [int(each[0]) for each in found if each is not None] == list(range(2_000))


@pytest.mark.parametrize("each", CASES, ids=lambda each: each.__name__)
def test_a_real_server(real: str, each: Case) -> None:
    asyncio.run(played(RealWorld(real, each.__name__), each))


@pytest.mark.parametrize("each", CASES, ids=lambda each: each.__name__)
@pytest.mark.parametrize("seed", range(8))
def test_the_simulator_s_servers(seed: int, each: Case) -> None:
    loop = SimLoop(random.Random(seed))
    try:
        loop.run_until_complete(played(SimWorld(SimEnsemble(loop, random.Random(seed))), each))
        assert loop.failures == []
    finally:
        loop.close()
