"""OffsetCommit: request and response, every version.

Api key 8. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class OffsetCommitResponse(Message, key=8, versions=(0, 10), flexible=8):
    """Answers OffsetCommit."""

    class OffsetCommitResponseTopic(Struct):
        name: str = at(0, "string", until=9)
        topic_id: bytes = at(10, "uuid")
        partitions: list[OffsetCommitResponse.OffsetCommitResponsePartition] = at(0, ["OffsetCommitResponsePartition"])

    class OffsetCommitResponsePartition(Struct):
        partition_index: int = at(0, "int32")
        error_code: int = at(0, "int16")

    throttle_time_ms: int = at(3, "int32")
    topics: list[OffsetCommitResponse.OffsetCommitResponseTopic] = at(0, ["OffsetCommitResponseTopic"])


class OffsetCommitRequest(Request[OffsetCommitResponse], key=8, versions=(0, 10), flexible=8):
    """Asks OffsetCommit."""

    class OffsetCommitRequestTopic(Struct):
        name: str = at(0, "string", until=9)
        topic_id: bytes = at(10, "uuid")
        partitions: list[OffsetCommitRequest.OffsetCommitRequestPartition] = at(0, ["OffsetCommitRequestPartition"])

    class OffsetCommitRequestPartition(Struct):
        partition_index: int = at(0, "int32")
        committed_offset: int = at(0, "int64")
        committed_leader_epoch: int = at(6, "int32", default=-1)
        commit_timestamp: int = at(1, "int64", until=1, default=-1)
        committed_metadata: str | None = at(0, "string", null=0)

    group_id: str = at(0, "string")
    generation_id_or_member_epoch: int = at(1, "int32", default=-1)
    member_id: str = at(1, "string")
    group_instance_id: str | None = at(7, "string", null=7, default=None)
    retention_time_ms: int = at(2, "int64", until=4, default=-1)
    topics: list[OffsetCommitRequest.OffsetCommitRequestTopic] = at(0, ["OffsetCommitRequestTopic"])
