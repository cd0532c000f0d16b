"""FetchSnapshot: request and response, every version.

Api key 59. Source: protocol guide; KIP-630.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.codec import Buffer
from moldau.wire.schema import Message, Request, Struct, at


class FetchSnapshotResponse(Message, key=59, versions=(0, 1)):
    """Answers FetchSnapshot."""

    class TopicSnapshot(Struct):
        name: str = at(0, "string")
        partitions: list[FetchSnapshotResponse.PartitionSnapshot] = at(0, ["PartitionSnapshot"])

    class PartitionSnapshot(Struct):
        index: int = at(0, "int32")
        error_code: int = at(0, "int16")
        snapshot_id: FetchSnapshotResponse.SnapshotId = at(0, "SnapshotId")
        current_leader: FetchSnapshotResponse.LeaderIdAndEpoch = at(0, "LeaderIdAndEpoch", tag=0)
        size: int = at(0, "int64")
        position: int = at(0, "int64")
        unaligned_records: Buffer | None = at(0, "records")

    class SnapshotId(Struct):
        end_offset: int = at(0, "int64")
        epoch: int = at(0, "int32")

    class LeaderIdAndEpoch(Struct):
        leader_id: int = at(0, "int32")
        leader_epoch: int = at(0, "int32")

    class NodeEndpoint(Struct):
        node_id: int = at(1, "int32")
        host: str = at(1, "string")
        port: int = at(1, "uint16")

    throttle_time_ms: int = at(0, "int32")
    error_code: int = at(0, "int16")
    topics: list[FetchSnapshotResponse.TopicSnapshot] = at(0, ["TopicSnapshot"])
    node_endpoints: list[FetchSnapshotResponse.NodeEndpoint] = at(1, ["NodeEndpoint"], tag=0)


class FetchSnapshotRequest(Request[FetchSnapshotResponse], key=59, versions=(0, 1)):
    """Asks FetchSnapshot."""

    class TopicSnapshot(Struct):
        name: str = at(0, "string")
        partitions: list[FetchSnapshotRequest.PartitionSnapshot] = at(0, ["PartitionSnapshot"])

    class PartitionSnapshot(Struct):
        partition: int = at(0, "int32")
        current_leader_epoch: int = at(0, "int32")
        snapshot_id: FetchSnapshotRequest.SnapshotId = at(0, "SnapshotId")
        position: int = at(0, "int64")
        replica_directory_id: bytes = at(1, "uuid", tag=0)

    class SnapshotId(Struct):
        end_offset: int = at(0, "int64")
        epoch: int = at(0, "int32")

    cluster_id: str | None = at(0, "string", null=0, default=None, tag=0)
    replica_id: int = at(0, "int32", default=-1)
    max_bytes: int = at(0, "int32", default=2147483647)
    topics: list[FetchSnapshotRequest.TopicSnapshot] = at(0, ["TopicSnapshot"])
