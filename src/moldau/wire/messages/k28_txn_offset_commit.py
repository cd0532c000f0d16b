"""TxnOffsetCommit: request and response, every version.

Api key 28. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class TxnOffsetCommitResponse(Message, key=28, versions=(0, 5), flexible=3):
    """Answers TxnOffsetCommit."""

    class TxnOffsetCommitResponseTopic(Struct):
        name: str = at(0, "string")
        partitions: list[TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition] = at(
            0, ["TxnOffsetCommitResponsePartition"]
        )

    class TxnOffsetCommitResponsePartition(Struct):
        partition_index: int = at(0, "int32")
        error_code: int = at(0, "int16")

    throttle_time_ms: int = at(0, "int32")
    topics: list[TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic] = at(0, ["TxnOffsetCommitResponseTopic"])


class TxnOffsetCommitRequest(Request[TxnOffsetCommitResponse], key=28, versions=(0, 5), flexible=3):
    """Asks TxnOffsetCommit."""

    class TxnOffsetCommitRequestTopic(Struct):
        name: str = at(0, "string")
        partitions: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition] = at(
            0, ["TxnOffsetCommitRequestPartition"]
        )

    class TxnOffsetCommitRequestPartition(Struct):
        partition_index: int = at(0, "int32")
        committed_offset: int = at(0, "int64")
        committed_leader_epoch: int = at(2, "int32", default=-1)
        committed_metadata: str | None = at(0, "string", null=0)

    transactional_id: str = at(0, "string")
    group_id: str = at(0, "string")
    producer_id: int = at(0, "int64")
    producer_epoch: int = at(0, "int16")
    generation_id: int = at(3, "int32", default=-1)
    member_id: str = at(3, "string")
    group_instance_id: str | None = at(3, "string", null=3, default=None)
    topics: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic] = at(0, ["TxnOffsetCommitRequestTopic"])
