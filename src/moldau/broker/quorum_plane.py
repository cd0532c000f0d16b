"""The control plane on the quorum: a node's seat, for its controller, its brokers' side and its request handlers.

``propose`` and ``resign`` are the verbs of ``moldau.ports.ControlPlane``; its events go to the listeners in order.
Voters (controllers) and observers (brokers) run the same. Decides nothing: ``moldau.quorum`` does; ``broker/quorum/``
drives it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Any

from moldau.broker.quorum.answers import refusal
from moldau.broker.quorum.batches import voters_in
from moldau.broker.quorum.deeds import PARTITION
from moldau.broker.quorum.describing import describe, voters_described
from moldau.broker.quorum.driver import Driver
from moldau.broker.quorum.files import QuorumFiles
from moldau.broker.quorum.requests import NotForUs, to_ask
from moldau.broker.quorum.settings import SeatSettings
from moldau.image import snapshot_records
from moldau.ports import PlaneEvents
from moldau.quorum import Leader, ReplicaKey, Timing, VoterSet
from moldau.quorum import events as on
from moldau.quorum.voters import Endpoint, Voter
from moldau.terms import NO_UUID, Code
from moldau.wire.messages.k01_fetch import FetchRequest
from moldau.wire.messages.k55_describe_quorum import DescribeQuorumRequest
from moldau.wire.messages.k59_fetch_snapshot import FetchSnapshotRequest
from moldau.wire.records.control import VotersRecord
from moldau.wire.schema import Message

log = logging.getLogger("moldau.quorum")

HAND_OVER_MS = 2000
FETCH_BYTES_MAX = 8 << 20
SEARCH_MS = 100


class QuorumPlane:
    """One node's plane. ``handle`` answers the quorum's requests; before ``start`` and after ``stop`` it refuses
    them.
    """

    def __init__(self, node: Any, meta: Any, listeners: Sequence[PlaneEvents]) -> None:
        self._node = node
        self._world = node.world
        self._config = node.config
        self._cluster_id: str = meta.cluster_id
        self._me = ReplicaKey(node.config.node_id, meta.directory_id or NO_UUID)
        self._listeners = listeners
        self._voters = VoterSet(())
        self._voters_record: VotersRecord | None = None
        self._driver: Driver | None = None

    # ---- start and stop

    async def start(self) -> None:
        """Take the seat: the log is open, the newest snapshot is delivered, and the machine runs."""
        self._voters = await self._known_voters()
        driver = Driver(self._settings())
        driver.start()
        self._driver = driver

    async def stop(self) -> None:
        """Leave: a leader hands over first, and waits a little until the others know."""
        driver = self._driver
        if driver is None:
            return
        driver.feed(on.ShutDown())
        try:
            await asyncio.wait_for(driver.deeds.closed.wait(), HAND_OVER_MS / 1000)
        except TimeoutError:
            log.warning("[%s] the quorum was not told of this node's leaving in time", driver.deeds.label)
        self._driver = None
        driver.end()

    def _settings(self) -> SeatSettings:
        config = self._config
        return SeatSettings(
            world=self._world,
            cluster_id=self._cluster_id,
            me=self._me,
            voters=self._voters,
            voters_record=self._voters_record,
            folder=config.metadata_dir,
            peers=self,
            listeners=self._listeners,
            contents=self._contents,
            may_vote=config.is_controller,
            leader_changed=self._node.quorum_leader_changed,
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
            segment_bytes=config["internal.metadata.log.segment.bytes"] or config["metadata.log.segment.bytes"],
        )

    def _contents(self) -> Iterable[Any]:
        """The records of the committed image as it is now; it may go on changing while they are written."""
        return snapshot_records(self._node.metadata.image.copy())

    async def _known_voters(self) -> VoterSet:
        """From the settings; or from the newest snapshot of a controller; or from whoever answers (KIP-853)."""
        name = self._config.controller_listener_names[0]
        if self._config.voters:
            given = sorted(self._config.voters.items())
            return VoterSet(tuple(Voter(ReplicaKey(id), (Endpoint(name, *where),)) for id, where in given))
        self._voters_record = self._voters_on_record()
        if self._voters_record is not None:
            return VoterSet(
                tuple(
                    Voter(
                        ReplicaKey(one.voter_id, bytes(one.voter_directory_id)),
                        tuple(Endpoint(where.name, where.host, where.port) for where in one.endpoints),
                    )
                    for one in sorted(self._voters_record.voters, key=lambda voter: voter.voter_id)
                )
            )
        return await self._ask_around()

    def _voters_on_record(self) -> VotersRecord | None:
        """The voter set in a controller's newest snapshot that has one; the first one was made by formatting."""
        folder = f"{self._config.metadata_dir}/{PARTITION}"
        if not self._config.is_controller or not self._world.disk.exists(folder):
            return None
        files = QuorumFiles(self._world.disk, folder)
        found = (voters_in(files.read_snapshot(point)) for point in reversed(files.tidy()))
        return next((record for record in found if record is not None), None)

    async def _ask_around(self) -> VoterSet:
        """The voters as a bootstrap controller describes them; asks until one does."""
        request = DescribeQuorumRequest(
            topics=[
                DescribeQuorumRequest.TopicData(
                    topic_name=PARTITION.topic, partitions=[DescribeQuorumRequest.PartitionData()]
                )
            ]
        )
        while True:
            for host, port in self._config.bootstrap_controllers:
                try:
                    found = voters_described(await self._node.peers.ask(host, port, request, SEARCH_MS * 20))
                except OSError:
                    continue
                if found is not None:
                    return found
            waiting = asyncio.get_running_loop().create_future()
            self._world.tasks.call_later(SEARCH_MS, lambda done=waiting: done.done() or done.set_result(None))
            await waiting

    # ---- the way to the other voters

    async def ask(self, node_id: int, request: Message, timeout_ms: int) -> Any:
        """Ask a voter; ConnectionRefusedError when nobody listens there, OSError when it cannot be reached."""
        address = self.voters().get(node_id)
        if address is None:
            raise ConnectionError(f"voter {node_id} has no known address")
        return await self._node.peers.ask(*address, request, timeout_ms)

    # ---- what the node asks

    def voters(self) -> dict[int, tuple[str, int]]:
        """Voter id -> address."""
        return {one.key.id: one.endpoints[0][1:] for one in self._voters.voters if one.endpoints}

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

    def readers(self) -> dict[int, int]:
        """If we lead: node -> offset of the last committed record that it holds and was told is committed."""
        role = None if self._driver is None else self._driver.quorum.role
        if not isinstance(role, Leader):
            return {}
        known = (*role.observers.values(), *role.voters.values())
        return {seen.key.id: min(seen.end_offset, seen.told_high_watermark) - 1 for seen in known}

    def propose(self, records: Sequence[Any], epoch: int) -> int | None:
        """See ``ControlPlane.propose``."""
        return None if self._driver is None else self._driver.propose(list(records), epoch)

    def resign(self) -> None:
        """See ``ControlPlane.resign``."""
        if self._driver is not None:
            self._driver.feed(on.Resign(self._driver.quorum.role.epoch))

    # ---- requests of other nodes

    def handle(self, request: Message, api_version: int) -> Any:
        """The response, or a future of it: Vote, Begin- and EndQuorumEpoch, Fetch, FetchSnapshot, DescribeQuorum."""
        driver = self._driver
        if driver is None:
            return refusal(request, Code.BROKER_NOT_AVAILABLE)
        if isinstance(request, DescribeQuorumRequest):
            return describe(driver.quorum, request, self._world.clock)
        try:
            ask = to_ask(request, api_version, self._cluster_id, self._me)
        except NotForUs as error:
            return refusal(request, error.code)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        wanted = 0
        if isinstance(request, FetchRequest):
            wanted = min(request.max_bytes, request.topics[0].partitions[0].partition_max_bytes, FETCH_BYTES_MAX)
        elif isinstance(request, FetchSnapshotRequest):
            wanted = min(request.max_bytes, driver.deeds.snapshot_fetch_bytes)
        driver.feed(on.Asked((future, max(wanted, 1)), ask))
        return future.result() if future.done() else future
