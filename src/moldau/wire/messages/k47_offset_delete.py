"""OffsetDelete: request and response, every version.

Api key 47. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class OffsetDeleteResponse(Message, key=47, versions=(0, 0), flexible=None):
    """Answers OffsetDelete."""

    class OffsetDeleteResponseTopic(Struct):
        name: str = at(0, "string")
        partitions: list[OffsetDeleteResponse.OffsetDeleteResponsePartition] = at(0, ["OffsetDeleteResponsePartition"])

    class OffsetDeleteResponsePartition(Struct):
        partition_index: int = at(0, "int32")
        error_code: int = at(0, "int16")

    error_code: int = at(0, "int16")
    throttle_time_ms: int = at(0, "int32")
    topics: list[OffsetDeleteResponse.OffsetDeleteResponseTopic] = at(0, ["OffsetDeleteResponseTopic"])


class OffsetDeleteRequest(Request[OffsetDeleteResponse], key=47, versions=(0, 0), flexible=None):
    """Asks OffsetDelete."""

    class OffsetDeleteRequestTopic(Struct):
        name: str = at(0, "string")
        partitions: list[OffsetDeleteRequest.OffsetDeleteRequestPartition] = at(0, ["OffsetDeleteRequestPartition"])

    class OffsetDeleteRequestPartition(Struct):
        partition_index: int = at(0, "int32")

    group_id: str = at(0, "string")
    topics: list[OffsetDeleteRequest.OffsetDeleteRequestTopic] = at(0, ["OffsetDeleteRequestTopic"])
