"""OffsetForLeaderEpoch: request and response, every version.

Api key 23. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class OffsetForLeaderEpochResponse(Message, key=23, versions=(0, 4), flexible=4):
    """Answers OffsetForLeaderEpoch."""

    class OffsetForLeaderTopicResult(Struct):
        topic: str = at(0, "string")
        partitions: list[OffsetForLeaderEpochResponse.EpochEndOffset] = at(0, ["EpochEndOffset"])

    class EpochEndOffset(Struct):
        error_code: int = at(0, "int16")
        partition: int = at(0, "int32")
        leader_epoch: int = at(1, "int32", default=-1)
        end_offset: int = at(0, "int64", default=-1)

    throttle_time_ms: int = at(2, "int32")
    topics: list[OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult] = at(0, ["OffsetForLeaderTopicResult"])


class OffsetForLeaderEpochRequest(Request[OffsetForLeaderEpochResponse], key=23, versions=(0, 4), flexible=4):
    """Asks OffsetForLeaderEpoch."""

    class OffsetForLeaderTopic(Struct):
        topic: str = at(0, "string")
        partitions: list[OffsetForLeaderEpochRequest.OffsetForLeaderPartition] = at(0, ["OffsetForLeaderPartition"])

    class OffsetForLeaderPartition(Struct):
        partition: int = at(0, "int32")
        current_leader_epoch: int = at(2, "int32", default=-1)
        leader_epoch: int = at(0, "int32")

    replica_id: int = at(3, "int32", default=-2)
    topics: list[OffsetForLeaderEpochRequest.OffsetForLeaderTopic] = at(0, ["OffsetForLeaderTopic"])
