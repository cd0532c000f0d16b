"""Whether the quorum keeps what stands at the end of this node's metadata log, asked before the node takes part.

A follower writes what it fetches before it is committed. Once other controllers have gone on without it, it is cut off
there, and never counts. Who cannot go on with a record need not keep out for one that is cut. The leader is asked as a
follower would ask, by a Fetch that names where the record ends, but for no replica: it counts for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from moldau.broker.kraft.peers import TOPIC_ID, only_partition
from moldau.broker.loop import sleep
from moldau.client.connection import ConnectionOptions, connect
from moldau.client.lines import UnsupportedApi
from moldau.model import Code
from moldau.model.named import NamedTuple
from moldau.ports import World
from moldau.storage.names import METADATA_TOPIC
from moldau.wire.codec import Malformed
from moldau.wire.messages.k01_fetch import FetchRequest, FetchResponse

PATIENCE_MS = 10_000
"""For a leader: elections take one or two seconds."""
PAUSE_MS = 250
_OPTIONS = ConnectionOptions(connect_timeout_ms=2_000, request_timeout_ms=2_000)


class LogPlace(NamedTuple):
    """Where a record stands: its offset, and the epoch of the leader that wrote it."""

    offset: int
    epoch: int


class TailStatus(Enum):
    """What the quorum says of a record."""

    CUT = "the leader's log has another one there"
    REPLACED = "the leader has a snapshot in its place, whose levels count"
    COMMITTED = "it is committed"
    UNKNOWN = "no leader has said"


async def tail_status(
    world: World, cluster_id: str, controllers: Iterable[tuple[str, int]], at: LogPlace
) -> TailStatus:
    """What becomes of a record; UNKNOWN when no controller that leads says so in time."""
    places = list(controllers)
    deadline_ms = world.clock.monotonic_ms() + PATIENCE_MS
    while True:
        for host, port in places:
            try:
                said = await _tail_status(world, cluster_id, host, port, at)
            except (OSError, UnsupportedApi, Malformed):  # it may be no controller at all
                continue
            if said is not TailStatus.UNKNOWN:
                return said
        if world.clock.monotonic_ms() > deadline_ms:
            return TailStatus.UNKNOWN
        await sleep(world.tasks, PAUSE_MS)


async def _tail_status(world: World, cluster_id: str, host: str, port: int, at: LogPlace) -> TailStatus:
    connection = await connect(world, host, port, _OPTIONS)
    try:
        said = _partition(await connection.ask(_fetch(cluster_id, at, at.epoch)))
        if said is not None and said.error_code == Code.FENCED_LEADER_EPOCH:  # it tells its epoch so
            said = _partition(await connection.ask(_fetch(cluster_id, at, said.current_leader.leader_epoch)))
    finally:
        connection.close()
    if said is None or said.error_code:
        return TailStatus.UNKNOWN
    if said.snapshot_id.end_offset >= 0:
        return TailStatus.REPLACED
    if said.high_watermark < 0:  # it has committed nothing of its own yet: another may lead with what is here
        return TailStatus.UNKNOWN
    if said.diverging_epoch.end_offset >= 0:
        return TailStatus.CUT
    return TailStatus.COMMITTED if said.high_watermark > at.offset else TailStatus.UNKNOWN


def _fetch(cluster_id: str, at: LogPlace, epoch: int) -> FetchRequest:
    partition = FetchRequest.FetchPartition(
        current_leader_epoch=epoch, fetch_offset=at.offset + 1, last_fetched_epoch=at.epoch, partition_max_bytes=1
    )
    topic = FetchRequest.FetchTopic(topic=METADATA_TOPIC, topic_id=TOPIC_ID, partitions=[partition])
    return FetchRequest(cluster_id=cluster_id, replica_id=-1, max_wait_ms=0, max_bytes=1, topics=[topic])


def _partition(answer: FetchResponse) -> FetchResponse.PartitionData | None:
    return only_partition(answer.responses)
