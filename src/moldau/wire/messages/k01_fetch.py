"""Fetch: request and response, every version.

Api key 1. Source: protocol guide; KIP-227, KIP-320, KIP-392, KIP-516, KIP-595, KIP-903, KIP-951.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.codec import Buffer
from moldau.wire.schema import Message, Request, Struct, at


class FetchResponse(Message, key=1, versions=(0, 18), flexible=12):
    """Answers Fetch."""

    class FetchableTopicResponse(Struct):
        topic: str = at(0, "string", until=12)
        topic_id: bytes = at(13, "uuid")
        partitions: list[FetchResponse.PartitionData] = at(0, ["PartitionData"])

    class PartitionData(Struct):
        partition_index: int = at(0, "int32")
        error_code: int = at(0, "int16")
        high_watermark: int = at(0, "int64")
        last_stable_offset: int = at(4, "int64", default=-1)
        log_start_offset: int = at(5, "int64", default=-1)
        diverging_epoch: FetchResponse.EpochEndOffset = at(12, "EpochEndOffset", tag=0)
        current_leader: FetchResponse.LeaderIdAndEpoch = at(12, "LeaderIdAndEpoch", tag=1)
        snapshot_id: FetchResponse.SnapshotId = at(12, "SnapshotId", tag=2)
        aborted_transactions: list[FetchResponse.AbortedTransaction] | None = at(4, ["AbortedTransaction"], null=4)
        preferred_read_replica: int = at(11, "int32", default=-1)
        records: Buffer | None = at(0, "records", null=0)

    class EpochEndOffset(Struct):
        epoch: int = at(12, "int32", default=-1)
        end_offset: int = at(12, "int64", default=-1)

    class LeaderIdAndEpoch(Struct):
        leader_id: int = at(12, "int32", default=-1)
        leader_epoch: int = at(12, "int32", default=-1)

    class SnapshotId(Struct):
        end_offset: int = at(0, "int64", default=-1)
        epoch: int = at(0, "int32", default=-1)

    class AbortedTransaction(Struct):
        producer_id: int = at(4, "int64")
        first_offset: int = at(4, "int64")

    class NodeEndpoint(Struct):
        node_id: int = at(16, "int32")
        host: str = at(16, "string")
        port: int = at(16, "int32")
        rack: str | None = at(16, "string", null=16, default=None)

    throttle_time_ms: int = at(1, "int32")
    error_code: int = at(7, "int16")
    session_id: int = at(7, "int32")
    responses: list[FetchResponse.FetchableTopicResponse] = at(0, ["FetchableTopicResponse"])
    node_endpoints: list[FetchResponse.NodeEndpoint] = at(16, ["NodeEndpoint"], tag=0)


class FetchRequest(Request[FetchResponse], key=1, versions=(0, 18), flexible=12):
    """Asks Fetch."""

    class ReplicaState(Struct):
        replica_id: int = at(15, "int32", default=-1)
        replica_epoch: int = at(15, "int64", default=-1)

    class FetchTopic(Struct):
        topic: str = at(0, "string", until=12)
        topic_id: bytes = at(13, "uuid")
        partitions: list[FetchRequest.FetchPartition] = at(0, ["FetchPartition"])

    class FetchPartition(Struct):
        partition: int = at(0, "int32")
        current_leader_epoch: int = at(9, "int32", default=-1)
        fetch_offset: int = at(0, "int64")
        last_fetched_epoch: int = at(12, "int32", default=-1)
        log_start_offset: int = at(5, "int64", default=-1)
        partition_max_bytes: int = at(0, "int32")
        replica_directory_id: bytes = at(17, "uuid", tag=0)
        high_watermark: int = at(18, "int64", default=9223372036854775807, tag=1)

    class ForgottenTopic(Struct):
        topic: str = at(7, "string", until=12)
        topic_id: bytes = at(13, "uuid")
        partitions: list[int] = at(7, ["int32"])

    cluster_id: str | None = at(12, "string", null=12, default=None, tag=0)
    replica_id: int = at(0, "int32", until=14, default=-1)
    replica_state: FetchRequest.ReplicaState = at(15, "ReplicaState", tag=1)
    max_wait_ms: int = at(0, "int32")
    min_bytes: int = at(0, "int32")
    max_bytes: int = at(3, "int32", default=2147483647)
    isolation_level: int = at(4, "int8")
    session_id: int = at(7, "int32")
    session_epoch: int = at(7, "int32", default=-1)
    topics: list[FetchRequest.FetchTopic] = at(0, ["FetchTopic"])
    forgotten_topics_data: list[FetchRequest.ForgottenTopic] = at(7, ["ForgottenTopic"])
    rack_id: str = at(11, "string")
