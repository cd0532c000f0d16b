"""Several members of one quorum in one process, over real files and a wire without sockets: every message is encoded
and read.

A member can be killed without warning (its peers see a broken connection, then refusals) and started again on its
folder.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from moldau.broker.kraft.answers import RESPONSES
from moldau.broker.kraft.plane import QuorumPlane
from moldau.image import Image
from moldau.model import Code
from moldau.quorum import VoterEndpoint
from moldau.runtime.world import real_world
from moldau.storage.checkpoints import MetaProperties
from moldau.wire.records.metadata import TopicRecord

CLUSTER = "Z5vVXEQ4SKqk8vTQ4jAHSg"
DEFAULTS = {
    "controller.quorum.election.timeout.ms": 1000,
    "controller.quorum.election.backoff.max.ms": 1000,
    "controller.quorum.fetch.timeout.ms": 2000,
    "controller.quorum.retry.backoff.ms": 20,
    "controller.quorum.request.timeout.ms": 2000,
    "controller.quorum.fetch.max.bytes": 1 << 20,
    "controller.quorum.fetch.snapshot.max.bytes": 1 << 20,
    "metadata.log.max.record.bytes.between.snapshots": 20_971_520,
    "metadata.log.max.snapshot.interval.ms": 3_600_000,
    "metadata.log.segment.bytes": 1 << 30,
    "metadata.max.retention.bytes": 104_857_600,
    "metadata.max.retention.ms": 604_800_000,
    "internal.metadata.log.segment.bytes": None,
    "controller.quorum.auto.join.enable": False,
}


def on_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that is a coroutine, run on an event loop of its own."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


class Config(dict[str, Any]):
    controller_listener_names = ("CONTROLLER",)
    bootstrap_controllers: tuple[tuple[str, int], ...] = ()

    def __init__(self, id: int, voters: Sequence[int], folder: str, **changes: Any) -> None:
        super().__init__({**DEFAULTS, **{key.replace("_", "."): value for key, value in changes.items()}})
        self.node_id = id
        self.voters = {voter: ("host", voter) for voter in voters}
        self.metadata_dir = folder
        self.is_controller = id in voters


class Listener:
    """Remembers what it is told; ``names`` is the state that the records make."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.image = Image()
        self.offset = -1
        self.active: int | None = None
        self.told: list[str] = []

    def became_active(self, epoch: int) -> None:
        self.active = epoch
        self.told.append(f"active {epoch}")

    def lost_active(self) -> None:
        self.active = None
        self.told.append("lost")

    def committed(self, records: Sequence[Any], offset: int, epoch: int) -> None:
        assert offset > self.offset, "delivered twice"
        self.names += [record.name for record in records]
        self.image.apply_all(records, offset)
        self.offset = offset

    def load_snapshot(self, records: Sequence[Any], offset: int, epoch: int) -> None:
        self.told.append(f"snapshot {offset}")
        self.names = [record.name for record in records if isinstance(record, TopicRecord)]
        self.image = Image()
        for record in records:
            self.image.apply(record)
        self.offset = offset


class QuorumMember:
    """One node's plane in the test's quorum."""

    def __init__(self, quorum: LoopbackQuorum, id: int, **changes: Any) -> None:
        self.quorum = quorum
        self.listener = Listener()
        folder = quorum.folder / str(id)
        folder.mkdir(exist_ok=True)
        self.alive = True
        self.port = quorum.ports.get(id, id)
        self.directory_id = bytes([quorum.disks.get(id, id)]) * 16
        self.world = real_world(asyncio.get_running_loop(), self._failed)
        self.inflight: set[asyncio.Future[Any]] = set()
        self.config = Config(id, quorum.voters, str(folder), **{**quorum.changes, **changes})
        self.config.is_controller = id in (*quorum.voters, *quorum.joining)
        self.leaders_heard_of: list[tuple[int | None, int]] = []
        meta = MetaProperties(CLUSTER, id, directory_id=self.directory_id)
        node: Any = MemberNode(self)  # Any: connections, metadata and settings are the quorum's own
        self.plane = QuorumPlane(node, meta, [self.listener])

    def state(self) -> str:
        """What it is and what it holds, in one line."""
        quorum, listener = self.plane.quorum, self.listener
        if quorum is None:
            return f"node {self.config.node_id}: not added_member"
        role, log = quorum.role, quorum.log
        return (
            f"node {self.config.node_id}: {type(role).__name__}, epoch {role.epoch}, leader {quorum.leader},"
            f" log {log.start} to {log.end}, high watermark {quorum.high_watermark}, voters {list(quorum.voters.ids)},"
            f" active {listener.active}, delivered to {listener.offset}, {len(listener.names)} names"
            f" up to {listener.names[-1:]}, heard of leaders {self.leaders_heard_of}"
        )

    def _failed(self, task: str, error: BaseException) -> None:
        if self.alive:  # what a killed process would have met nobody hears of
            self.quorum.failures.append(error)

    async def ask(self, host: str, port: int, message: Any, timeout_ms: int | None = None) -> Any:
        return await self.quorum.carry(self, port, message, timeout_ms or 2000)


class MemberNode:
    """The node of a member, as its plane sees it."""

    cluster_id = CLUSTER

    def __init__(self, member: QuorumMember) -> None:
        self._member = member
        self.world = member.world
        self.config = member.config
        self.peers = member
        self.metadata = member.listener
        self.controller_channel = LeaderChannel(member)

    @property
    def plane(self) -> QuorumPlane:
        return self._member.plane

    def quorum_leader_changed(self) -> None:
        self._member.leaders_heard_of.append(self.plane.leader)

    def controller_endpoints(self) -> list[VoterEndpoint]:
        return [VoterEndpoint("CONTROLLER", "host", self._member.port)]


class LeaderChannel:
    """A channel to the quorum's leader, for changes of voters."""

    def __init__(self, member: QuorumMember) -> None:
        self._member = member

    async def send(self, message: Any, timeout_ms: int) -> Any:
        leader, _ = self._member.plane.leader
        asked = None if leader is None else self._member.quorum.members.get(leader)
        if asked is None:
            raise ConnectionError("no leader is known")
        answer = await asked.plane.change_voters(message)
        return RESPONSES[type(message)](error_code=int(answer.code))


class LoopbackQuorum:
    """All members by node id."""

    def __init__(self, folder: Path, voters: Sequence[int], **changes: Any) -> None:
        self.folder = folder
        self.voters = tuple(voters)
        self.changes = changes
        self.members: dict[int, QuorumMember] = {}
        self.failures: list[BaseException] = []
        self.versions: dict[int, int] = {}
        self.joining: tuple[int, ...] = ()
        self.ports: dict[int, int] = {}
        self.disks: dict[int, int] = {}

    async def start(self, *ids: int, **changes: Any) -> None:
        for id in ids:
            self.members[id] = QuorumMember(self, id, **changes)
        await asyncio.gather(*(self.members[id].plane.start() for id in ids))

    def kill(self, id: int) -> None:
        """As kill -9 does: nothing is said, nothing is closed."""
        member = self.members.pop(id)
        member.alive = False
        driver = member.plane._driver
        assert driver is not None
        driver._over = True
        member.plane._driver = None
        member.world.tasks.join()  # type: ignore[attr-defined]  # no thread writes into the next life's files
        for future in list(member.inflight):
            if not future.done():
                future.set_exception(ConnectionResetError("the peer is gone"))

    async def stop(self) -> None:
        for member in list(self.members.values()):
            await member.plane.stop()
        self.members.clear()

    async def carry(self, source: QuorumMember, target: int, message: Any, timeout_ms: int) -> Any:
        """One request and its response, as bytes both ways."""
        member = next((one for one in self.members.values() if one.port == target), None)
        await asyncio.sleep(0)
        if not source.alive:
            raise ConnectionAbortedError("this node is gone")
        if member is None:
            raise ConnectionRefusedError(f"nobody listens at {target}")
        version = min(self.versions.get(message.api_key, message.versions[1]), message.versions[1])
        request = type(message).decode(message.encode(version), version)
        answer = member.plane.handle(request, version)
        if inspect.isawaitable(answer):
            future = asyncio.ensure_future(answer)
            member.inflight.add(future)
            try:
                answer = await asyncio.wait_for(future, timeout_ms / 1000)
            except TimeoutError:
                raise ConnectionError("no answer in time") from None
            finally:
                member.inflight.discard(future)
        return RESPONSES[type(message)].decode(answer.encode(version), version)

    # ---- questions

    def active(self) -> QuorumMember | None:
        """Who leads, as it thinks itself; an old leader that has not heard of the next epoch yet is no answer."""
        found = [member for member in self.members.values() if member.listener.active is not None]
        return max(found, key=lambda member: member.listener.active or 0, default=None)

    async def until(self, holds: Callable[[], Any], what: str, limit_s: float = 60.0) -> Any:
        """Wait until something holds (and is true); what it was."""
        end = time.monotonic() + limit_s
        while not (found := holds()):
            assert not self.failures, self.failures
            assert time.monotonic() < end, f"waited {limit_s:.0f} s in vain for {what}\n{self.state()}"
            await asyncio.sleep(0.002)
        assert not self.failures, self.failures
        return found

    async def until_failure(self, limit_s: float = 60.0) -> None:
        """Wait until a node has stopped by an error."""
        end = time.monotonic() + limit_s
        while not self.failures:
            assert time.monotonic() < end, f"waited {limit_s:.0f} s in vain for a node to stop\n{self.state()}"
            await asyncio.sleep(0.002)

    def state(self) -> str:
        """One line for each node."""
        return "\n".join(member.state() for member in self.members.values())

    async def leader(self) -> QuorumMember:
        return await self.until(self.active, "an active leader")  # type: ignore[no-any-return]

    async def asked(self, ask: Callable[[QuorumPlane], Awaitable[Any]]) -> Code:
        """What the leader says, or its successor when it went before it had an answer."""
        while True:
            code: Code = (await ask((await self.leader()).plane)).code
            if code is not Code.NOT_LEADER_OR_FOLLOWER:
                return code
            await asyncio.sleep(0.002)

    async def write(self, *names: str) -> int:
        """Propose topics at the leader, and again at its successor when it goes, until they are committed; the offset
        up to which the leader has committed then.
        """
        while True:
            leader = await self.leader()
            epoch = leader.listener.active
            assert epoch is not None
            if set(names) <= set(leader.listener.names):
                return leader.listener.offset
            offset = leader.plane.propose(
                [TopicRecord(name=name, topic_id=name.encode().ljust(16, b".")[:16]) for name in names], epoch
            )
            if offset is None:
                await asyncio.sleep(0.005)  # it has just resigned
                continue
            await self._committed_or_lost(leader, epoch, offset, f"the commit of {', '.join(names)} at {offset}")

    async def _committed_or_lost(self, leader: QuorumMember, epoch: int, offset: int, what: str) -> None:
        heard = leader.listener
        await self.until(lambda: heard.offset >= offset or heard.active != epoch, what)
