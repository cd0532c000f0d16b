"""Three real ZooKeeper servers: one dies, the sessions live. What is said when nobody answers, or nobody may."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka_peer import wait_until
from kazoo.security import make_acl, make_digest_acl
from one_node import moldau

from moldau.cluster.ensemble import LocalEnsemble
from moldau.cluster.nodes import HOST, free_ports
from moldau.ports.zookeeper import ConnectionLoss, Ensemble, NoAuth, Stat
from moldau.zookeeper.link import ReadMany, ZooKeeperClient
from moldau.zookeeper.session import Session

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEnsemble]:
    with LocalEnsemble(tmp_path_factory.mktemp("ensemble"), servers=3) as ensemble:
        yield ensemble


def config(connect: str, connection_timeout_ms: int = 60_000) -> Ensemble:
    return Ensemble(connect=connect, session_timeout_ms=60_000, connection_timeout_ms=connection_timeout_ms)


async def patiently(session: Session, path: str) -> None:
    """Create a znode, however often the connection breaks meanwhile."""
    while True:
        try:
            if await session.exists(path) is None:
                await session.create(path)
            return
        except ConnectionLoss:
            await asyncio.sleep(0.05)


def leading(three: LocalEnsemble) -> int:
    """The ensemble's leader, once a server says that it is."""
    found: list[int | None] = [None]

    def there() -> bool:
        found[0] = three.leader()
        return found[0] is not None

    wait_until(there, "the ensemble has a leader")
    assert found[0] is not None
    return found[0]


def test_the_leader_of_three_servers_dies_and_the_sessions_live(three: LocalEnsemble) -> None:
    async def play() -> None:
        sessions = [Session(config(three.connect + "/failover")) for _ in range(4)]
        for session in sessions:
            await session.start()
        ids = [session.session_id for session in sessions]
        for n, session in enumerate(sessions):
            await session.create(f"/e{n}", b"", ephemeral=True)
        leader = await asyncio.to_thread(leading, three)
        await asyncio.to_thread(three.kill, leader)
        for n, session in enumerate(sessions):
            await asyncio.wait_for(patiently(session, f"/after{n}"), 120)
        assert [session.session_id for session in sessions] == ids
        await sessions[0].sync()
        assert set(await sessions[0].children("/")) == {f"{what}{n}" for what in ("e", "after") for n in range(4)}
        assert await asyncio.to_thread(leading, three) != leader
        await asyncio.to_thread(three.restart, leader)
        for session in sessions:
            await session.stop()

    asyncio.run(play())


def test_a_folder_s_ensemble_is_found_and_stopped_by_another(tmp_path: Path) -> None:
    first = LocalEnsemble(tmp_path)
    first.start()
    other = LocalEnsemble(tmp_path)
    wait_until(lambda: other.leader() == 1, "it is found")
    other.stop()
    assert LocalEnsemble(tmp_path).leader() is None
    first.stop()  # whose child it was


@pytest.mark.parametrize(("asked_ms", "given_ms"), [(3_600_000, 60_000), (1, None), (20_000, 20_000)])
def test_a_session_has_the_time_that_real_servers_give_it(
    three: LocalEnsemble, asked_ms: int, given_ms: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Beyond their bounds it is another than what was asked for, and is named."""

    async def play() -> int:
        asked = Ensemble(connect=three.connect, session_timeout_ms=asked_ms, connection_timeout_ms=60_000)
        session = Session(asked)
        await session.start()
        given: int = session.session_timeout_ms
        await session.stop()
        return given

    given = asyncio.run(play())
    assert given == given_ms or (given_ms is None and given > asked_ms)
    said = [line for line in caplog.messages if "zookeeper.session.timeout.ms" in line]
    assert [f"for {given} ms" in line for line in said] == [True] * (given != asked_ms)


def test_nobody_answers_is_said_with_names_and_time() -> None:
    (port,) = free_ports(1)
    session = Session(config(f"{HOST}:{port}", connection_timeout_ms=500))
    with pytest.raises(ConnectionLoss, match=rf"{HOST}:{port} answered in 500 ms \(zookeeper.connection.timeout.ms\)"):
        asyncio.run(session.start())


def test_a_chroot_that_may_not_be_created_is_said(three: LocalEnsemble) -> None:
    client = ZooKeeperClient(three.connect, 60_000, lambda _: None)
    client.start_async().wait(60)
    client.mended()
    client.create("/locked", b"", acl=[make_acl("world", "anyone", read=True)])
    client.leave()
    with pytest.raises(NoAuth, match="/locked/kafka: the chroot of zookeeper.connect may not be created"):
        asyncio.run(Session(config(three.connect + "/locked/kafka")).start())


def node_that_fails(folder: Path, connect: str) -> str:
    """Start a broker that cannot: what it said. It ends by itself, with 1, and without a traceback."""
    (port,) = free_ports(1)
    file = folder / "server.properties"
    lines = {
        "broker.id": 1,
        "listeners": f"PLAINTEXT://{HOST}:{port}",
        "log.dirs": folder / "data",
        "zookeeper.connect": connect,
        "zookeeper.connection.timeout.ms": 1_000 if ":1/" in connect else 60_000,
    }
    file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    said = moldau("node", file)
    assert said.code == 1, said
    assert "Traceback" not in said.text, said.text
    return said.text


def test_a_node_ends_when_nobody_answers_and_says_whom_it_asked(tmp_path: Path) -> None:
    assert f"no server of {HOST}:1/kafka answered in 1000 ms" in node_that_fails(tmp_path, f"{HOST}:1/kafka")


def test_a_node_ends_when_a_digest_keeps_it_out_and_says_where(three: LocalEnsemble, tmp_path: Path) -> None:
    client = ZooKeeperClient(three.connect, 60_000, lambda _: None)
    client.start_async().wait(60)
    client.mended()
    client.add_auth("digest", "owner:secret")
    owner = [make_digest_acl("owner", "secret", all=True), make_acl("world", "anyone", read=True)]
    client.create("/owned", b"", acl=owner)
    client.leave()
    said = node_that_fails(tmp_path, f"{three.connect}/owned")
    assert "/consumers: not allowed, by the ACL of this znode or of its parent" in said


def test_many_reads_name_the_znode_that_may_not_be_read(three: LocalEnsemble) -> None:
    async def play() -> None:
        session = Session(config(three.connect + "/many"))
        await session.start()
        await session.create("/open", b"x")
        assert session._client is not None
        await asyncio.to_thread(session._client.create, "/shut", b"", acl=[make_acl("world", "anyone", delete=True)])
        with pytest.raises(NoAuth, match="/shut"):
            await session.get_many(["/open", "/none", "/shut"])
        await session.stop()

    asyncio.run(play())


def test_servers_that_do_not_know_many_reads_in_one_are_asked_one_by_one(
    three: LocalEnsemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReadMany, "type", 99)

    async def play() -> None:
        session = Session(config(three.connect + "/old"))
        await session.start()
        for n in range(3):
            await session.create(f"/n{n}", str(n).encode())
        found: list[tuple[bytes, Stat] | None] = []
        while not found:
            try:
                found = await session.get_many(["/n0", "/none", "/n2"])
            except ConnectionLoss:  # a server hangs up on whom it does not understand
                await asyncio.sleep(0.05)
        assert [each and each[0] for each in found] == [b"0", None, b"2"]
        await session.stop()

    asyncio.run(play())


def test_a_server_that_hangs_does_not_hold_up_who_leaves(tmp_path: Path) -> None:
    with LocalEnsemble(tmp_path) as ensemble:
        pid = ensemble.servers[0].pid
        assert pid is not None

        async def play() -> None:
            session = Session(config(ensemble.connect))
            await session.start()
            os.kill(pid, signal.SIGSTOP)
            # Two thirds of the session's time, 40 s, are what a silent server is waited for otherwise.
            await asyncio.wait_for(session.stop(), 25)

        try:
            asyncio.run(play())
        finally:
            os.kill(pid, signal.SIGCONT)
