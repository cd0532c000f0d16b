"""What a node's part in the quorum goes by, as one value: who it is, who votes, how long to wait, what to keep."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence

from moldau.broker.kraft.retention import Retention
from moldau.model.protocol import Protocol
from moldau.model.value import value
from moldau.ports import PlaneEvents, World
from moldau.quorum import ReplicaKey, Timing, VoterEndpoint, VoterSet
from moldau.wire.schema import Message, Request, ResponseT


class QuorumPeers(Protocol):
    """Connections to other voters."""

    def ask(self, node_id: int, request: Request[ResponseT], timeout_ms: int) -> Awaitable[ResponseT]:
        """The response; ConnectionRefusedError when the peer's process is gone, OSError when there is no answer."""


@value(kw_only=True)
class RaftSettings:
    """The settings of one node's Raft replica. ``folder`` is the metadata folder, that of ``__cluster_metadata-0``.

    ``voters`` are the static ones (``controller.quorum.voters``), if any; ``bootstrap`` are addresses of controllers
    without their ids; ``endpoints`` tells where this controller listens. ``contents`` makes the records of a snapshot
    of what has been delivered so far: called on the loop, the iterable is run off it. ``may_vote``: this node is a
    controller, so it flushes before it fetches even while it does not vote yet.
    """

    world: World
    cluster_id: str
    me: ReplicaKey
    voters: VoterSet
    folder: str
    peers: QuorumPeers
    listeners: Sequence[PlaneEvents]
    contents: Callable[[], Iterable[Message]]
    may_vote: bool
    bootstrap: tuple[tuple[str, int], ...] = ()
    endpoints: Callable[[], Sequence[VoterEndpoint]] = tuple
    listener: str = "CONTROLLER"  # the listener on which controllers speak to each other
    leader_changed: Callable[[], object] = lambda: None
    voters_changed: Callable[[], object] = lambda: None
    timing: Timing = Timing()
    request_timeout_ms: int = 2000  # controller.quorum.request.timeout.ms
    fetch_bytes: int = 1 << 20  # controller.quorum.fetch.max.bytes
    snapshot_fetch_bytes: int = 1 << 20  # controller.quorum.fetch.snapshot.max.bytes
    snapshot_bytes: int = 20_971_520  # metadata.log.max.record.bytes.between.snapshots
    snapshot_interval_ms: int = 3_600_000  # metadata.log.max.snapshot.interval.ms
    retention: Retention = Retention()
    segment_bytes: int = 1 << 30  # metadata.log.segment.bytes
