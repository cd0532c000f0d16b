"""The control plane in KRaft mode: a node's part in the quorum, for its controller, its broker and its handlers.

``propose`` and ``resign`` are the verbs of ``moldau.ports.ControlPlane``; its events go to the listeners in order.
Voters (controllers) and observers (brokers) run the same. Decides nothing: ``moldau.quorum`` does; ``broker/kraft/``
drives it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from moldau.broker.controller.kafkas_controllers import migrates_for_kafka
from moldau.broker.host import Host, WithPeers
from moldau.broker.kraft.driver import Driver
from moldau.broker.kraft.membership import Membership, MembershipNode
from moldau.broker.kraft.peers import NotForUs
from moldau.broker.kraft.retention import Retention
from moldau.broker.kraft.settings import RaftSettings
from moldau.client.connection import Connection
from moldau.controller.kafkas_migration import of_controllers
from moldau.image import registration, snapshot_records
from moldau.model import NO_UUID, Code
from moldau.model.protocol import Protocol
from moldau.ports import PlaneEvents
from moldau.quorum import Leader, Quorum, ReplicaKey, Timing, Voter, VoterEndpoint, VoterSet
from moldau.quorum import events as on
from moldau.quorum.messages import (
    AddVoterRequest,
    BeginEpochRequest,
    RaftRequest,
    UpdateVoterRequest,
    UpgradeVotersRequest,
    VoterChangeRequest,
    VoterChangeResponse,
)
from moldau.storage.checkpoints import MetaProperties
from moldau.wire.schema import Message, Request, ResponseT

if TYPE_CHECKING:
    from moldau.broker.kraft.requests import QuorumResponse

log = logging.getLogger(__name__)

HAND_OVER_MS = 2000
FETCH_BYTES_MAX = 8 << 20
NOT_YET = "This controller does not take part in the quorum yet."


class QuorumHost(Host, MembershipNode, WithPeers, Protocol):
    """What the plane uses of its node."""

    def controller_endpoints(self) -> Sequence[registration.Endpoint]: ...

    def quorum_leader_changed(self) -> None: ...


class QuorumPlane:
    """One node's plane. ``handle`` answers the quorum's requests; before ``start`` and after ``stop`` it refuses
    them.
    """

    def __init__(self, node: QuorumHost, meta: MetaProperties, listeners: Sequence[PlaneEvents]) -> None:
        self._node = node
        self._world = node.world
        self._config = node.config
        self._cluster_id: str = meta.cluster_id
        self._me = ReplicaKey(node.config.node_id, meta.directory_id or NO_UUID)
        self._listeners = listeners
        self._driver: Driver | None = None
        self._is_kept_out = False
        self._membership = Membership(node, self._me, self._own_endpoints) if node.config.is_controller else None

    # ---- start and stop

    async def start(self) -> None:
        """Begin to take part: the log is open, the newest snapshot is delivered, and the machine runs.
        Ends with KafkasMigration beside who says what ``_on_connected`` looks for."""
        self._node.peers.on_connected = self._on_connected
        driver = Driver(self._settings())
        driver.start()
        self._driver = driver

    def _on_connected(self, connection: Connection) -> None:
        """End beside a controller that takes a cluster of Kafka's from ZooKeeper: it is asked for nothing."""

        async def end() -> None:
            raise of_controllers([connection.peer])

        if migrates_for_kafka(connection.versions):
            connection.close()
            if not self._is_kept_out:
                self._is_kept_out = True
                self._world.tasks.spawn(end(), "quorum")

    async def stop(self) -> None:
        """Leave: a leader resigns first (EndQuorumEpoch), and waits a little until the others know."""
        driver = self._driver
        if driver is None:
            return
        if self._membership is not None:
            self._membership.stop()
        driver.feed(on.ShutDown())
        try:
            await asyncio.wait_for(driver.executor.closed.wait(), HAND_OVER_MS / 1000)
        except TimeoutError:
            log.warning("[%s] the quorum was not told of this node's leaving in time", driver.executor.label)
        self._driver = None
        driver.end()

    def _settings(self) -> RaftSettings:
        config = self._config
        return RaftSettings(
            world=self._world,
            cluster_id=self._cluster_id,
            me=self._me,
            voters=self._static_voters(),
            bootstrap=tuple(self._config.bootstrap_controllers),
            endpoints=self._own_endpoints,
            listener=self._config.controller_listener_names[0],
            folder=config.metadata_dir,
            peers=self,
            listeners=self._listeners,
            contents=self._contents,
            may_vote=config.is_controller,
            leader_changed=self._leader_changed,
            voters_changed=self._look,
            timing=Timing(
                election_timeout_ms=config["controller.quorum.election.timeout.ms"],
                election_backoff_max_ms=config["controller.quorum.election.backoff.max.ms"],
                fetch_timeout_ms=config["controller.quorum.fetch.timeout.ms"],
                retry_backoff_ms=config["controller.quorum.retry.backoff.ms"],
            ),
            request_timeout_ms=config["controller.quorum.request.timeout.ms"],
            fetch_bytes=config["controller.quorum.fetch.max.bytes"],
            snapshot_fetch_bytes=config["controller.quorum.fetch.snapshot.max.bytes"],
            snapshot_bytes=config["metadata.log.max.record.bytes.between.snapshots"],
            snapshot_interval_ms=config["metadata.log.max.snapshot.interval.ms"],
            retention=Retention(config["metadata.max.retention.bytes"], config["metadata.max.retention.ms"]),
            segment_bytes=config["internal.metadata.log.segment.bytes"] or config["metadata.log.segment.bytes"],
        )

    def _contents(self) -> Iterable[Message]:
        """The records of the committed image as it is now; it may go on changing while they are written."""
        return snapshot_records(self._node.metadata.image.copy())

    def _static_voters(self) -> VoterSet:
        """The voters that the settings name; what the log says goes before them (KIP-853)."""
        name = self._config.controller_listener_names[0]
        given = sorted(self._config.voters.items())
        return VoterSet(tuple(Voter(ReplicaKey(id), (VoterEndpoint(name, *where),)) for id, where in given))

    def _own_endpoints(self) -> list[VoterEndpoint]:
        """Where this controller listens; the first is the one that other controllers use."""
        if not self._config.is_controller:
            return []
        name = self._config.controller_listener_names[0]
        shown = [VoterEndpoint(one.name, one.host, one.port) for one in self._node.controller_endpoints()]
        return sorted(shown, key=lambda one: one.name != name)

    def _leader_changed(self) -> None:
        self._node.quorum_leader_changed()
        self._look()

    def _look(self) -> None:
        if self._membership is not None and self._driver is not None:
            self._membership.update(self._driver.quorum)

    # ---- the way to the other voters

    async def ask(self, node_id: int, request: Request[ResponseT], timeout_ms: int) -> ResponseT:
        """Ask a controller; ConnectionRefusedError when nobody listens there, OSError when it cannot be reached."""
        address = None if self._driver is None else self._driver.address(node_id)
        if address is None:
            raise ConnectionError(f"voter {node_id} has no known address")
        return await self._node.peers.ask(*address, request, timeout_ms)

    # ---- what the node asks

    def voters(self) -> dict[int, tuple[str, int]]:
        """Controller id -> address: the voters, and the leader, which may be a voter no more."""
        driver = self._driver
        if driver is None:
            return {}
        ids = [*driver.quorum.voters.ids, driver.quorum.leader]
        found = {id: driver.address(id) for id in ids if id is not None}
        return {id: address for id, address in found.items() if address is not None}

    @property
    def quorum(self) -> Quorum | None:
        """The machine's state; None while this node does not take part."""
        return None if self._driver is None else self._driver.quorum

    @property
    def leader(self) -> tuple[int | None, int]:
        """The leader as known here, and the epoch."""
        if self._driver is None:
            return None, 0
        quorum = self._driver.quorum
        return quorum.leader, quorum.role.epoch

    @property
    def high_watermark(self) -> int:
        """Everything below is known here to be committed."""
        return 0 if self._driver is None else self._driver.quorum.high_watermark

    @property
    def next_offset(self) -> int:
        """Where the next record goes, if we lead."""
        return 0 if self._driver is None else self._driver.quorum.log.end

    async def mark_for_deletion(self, topics: Sequence[str]) -> bool:
        """Never called with a topic: no deletion waits in KRaft mode."""
        return not topics

    def refused_deletion(self, topic_id: bytes) -> None:
        """None: no deletion waits in KRaft mode."""

    @property
    def is_cut_off(self) -> bool:
        """See ``Plane.is_cut_off``."""
        return False

    @property
    def why_no_controller(self) -> str:
        """See ``Plane.why_no_controller``."""
        return ""

    @property
    def missing_log(self) -> str:
        """See ``reported.ReportedPlane``."""
        return "" if self._driver is None else self._driver.missing_log

    @property
    def unregistered(self) -> str:
        """See ``reported.Plane``."""
        return ""

    def readers(self) -> dict[int, int]:
        """If we lead: node -> offset of the last committed record that it holds and was told is committed."""
        role = None if self._driver is None else self._driver.quorum.role
        if not isinstance(role, Leader):
            return {}
        known = (*role.observers.values(), *role.voters.values())
        return {seen.key.id: min(seen.end_offset, seen.told_high_watermark) - 1 for seen in known}

    def propose(self, records: Sequence[Message], epoch: int) -> int | None:
        """See ``ControlPlane.propose``."""
        return None if self._driver is None else self._driver.propose(records, epoch)

    def resign(self) -> None:
        """See ``ControlPlane.resign``."""
        if self._driver is not None:
            self._driver.feed(on.Resign(self._driver.quorum.role.epoch))

    # ---- requests of other nodes

    def handle(
        self, request: Message, api_version: int
    ) -> Message | VoterChangeResponse | asyncio.Future[QuorumResponse | VoterChangeResponse]:
        """The response, or a future of it: Vote, Begin- and EndQuorumEpoch, Fetch, FetchSnapshot, DescribeQuorum."""
        from moldau.broker.kraft.answers import refusal  # here, with what follows: see peers.py
        from moldau.broker.kraft.describing import describe
        from moldau.broker.kraft.requests import to_raft_request
        from moldau.wire.messages.k01_fetch import FetchRequest
        from moldau.wire.messages.k53_begin_quorum_epoch import BeginQuorumEpochRequest
        from moldau.wire.messages.k55_describe_quorum import DescribeQuorumRequest
        from moldau.wire.messages.k59_fetch_snapshot import FetchSnapshotRequest

        driver = self._driver
        if driver is None:
            return refusal(request, Code.BROKER_NOT_AVAILABLE)
        if isinstance(request, DescribeQuorumRequest):
            return describe(driver.quorum, request, self._world.clock)
        try:
            raft_request = to_raft_request(request, api_version, self._cluster_id, self._me)
        except NotForUs as error:
            return refusal(request, error.code)
        if (
            isinstance(request, BeginQuorumEpochRequest)
            and isinstance(raft_request, BeginEpochRequest)
            and request.leader_endpoints
            and raft_request.epoch >= driver.quorum.role.epoch
        ):
            name = self._config.controller_listener_names[0]
            told = next((one for one in request.leader_endpoints if one.name == name), request.leader_endpoints[0])
            driver.announced(raft_request.leader, told.host, told.port)
        future: asyncio.Future[QuorumResponse | VoterChangeResponse] = asyncio.get_running_loop().create_future()
        wanted = 0
        if isinstance(request, FetchRequest):
            wanted = min(request.max_bytes, request.topics[0].partitions[0].partition_max_bytes, FETCH_BYTES_MAX)
        elif isinstance(request, FetchSnapshotRequest):
            wanted = min(request.max_bytes, driver.executor.snapshot_fetch_bytes)
        driver.feed(on.RequestReceived((future, max(wanted, 1)), raft_request))
        return future.result() if future.done() else future

    async def change_voters(self, request: Message) -> VoterChangeResponse:
        """The leader's answer to a request to change the voters: Add-, Remove- or UpdateRaftVoter, or a higher
        kraft.version.
        """
        driver = self._driver
        if driver is None:
            return VoterChangeResponse(Code.NOT_LEADER_OR_FOLLOWER, 0, None, NOT_YET)
        from moldau.broker.kraft.requests import to_raft_request  # here: see peers.py

        try:
            raft_request = to_raft_request(request, request.versions[1], self._cluster_id, self._me)
        except NotForUs as error:
            other = error.code is Code.INCONSISTENT_CLUSTER_ID
            message = "This is another cluster." if other else "A voter's endpoints take no more than 64 KiB."
            return VoterChangeResponse(error.code, driver.quorum.role.epoch, driver.quorum.leader, message)
        name = self._config.controller_listener_names[0]
        if isinstance(raft_request, AddVoterRequest | UpdateVoterRequest) and name not in {
            one.name for one in raft_request.voter.endpoints
        }:
            message = f"A voter has an endpoint of the listener {name}."
            return VoterChangeResponse(Code.INVALID_REQUEST, driver.quorum.role.epoch, driver.quorum.leader, message)
        return await self._change(driver, raft_request)

    async def upgrade(self, timeout_ms: int) -> VoterChangeResponse:
        """Raise kraft.version to 1: the voters set by hand go into the log."""
        driver = self._driver
        if driver is None:
            return VoterChangeResponse(Code.NOT_LEADER_OR_FOLLOWER, 0, None, NOT_YET)
        own = Voter(self._me, tuple(self._own_endpoints()))
        return await self._change(driver, UpgradeVotersRequest(timeout_ms, own))

    async def _change(self, driver: Driver, raft_request: RaftRequest | VoterChangeRequest) -> VoterChangeResponse:
        future: asyncio.Future[VoterChangeResponse] = asyncio.get_running_loop().create_future()
        driver.feed(on.RequestReceived((future, 0), raft_request))
        return await future
