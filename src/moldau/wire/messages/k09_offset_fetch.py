"""OffsetFetch: request and response, every version.

Api key 9. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class OffsetFetchResponse(Message, key=9, versions=(0, 10), flexible=6):
    """Answers OffsetFetch."""

    class OffsetFetchResponseTopic(Struct):
        name: str = at(0, "string", until=7)
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartition] = at(
            0, ["OffsetFetchResponsePartition"], until=7
        )

    class OffsetFetchResponsePartition(Struct):
        partition_index: int = at(0, "int32", until=7)
        committed_offset: int = at(0, "int64", until=7)
        committed_leader_epoch: int = at(5, "int32", until=7, default=-1)
        metadata: str | None = at(0, "string", until=7, null=0)
        error_code: int = at(0, "int16", until=7)

    class OffsetFetchResponseGroup(Struct):
        group_id: str = at(8, "string")
        topics: list[OffsetFetchResponse.OffsetFetchResponseTopics] = at(8, ["OffsetFetchResponseTopics"])
        error_code: int = at(8, "int16")

    class OffsetFetchResponseTopics(Struct):
        name: str = at(8, "string", until=9)
        topic_id: bytes = at(10, "uuid")
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartitions] = at(8, ["OffsetFetchResponsePartitions"])

    class OffsetFetchResponsePartitions(Struct):
        partition_index: int = at(8, "int32")
        committed_offset: int = at(8, "int64")
        committed_leader_epoch: int = at(8, "int32", default=-1)
        metadata: str | None = at(8, "string", null=8)
        error_code: int = at(8, "int16")

    throttle_time_ms: int = at(3, "int32")
    topics: list[OffsetFetchResponse.OffsetFetchResponseTopic] = at(0, ["OffsetFetchResponseTopic"], until=7)
    error_code: int = at(2, "int16", until=7)
    groups: list[OffsetFetchResponse.OffsetFetchResponseGroup] = at(8, ["OffsetFetchResponseGroup"])


class OffsetFetchRequest(Request[OffsetFetchResponse], key=9, versions=(0, 10), flexible=6):
    """Asks OffsetFetch."""

    class OffsetFetchRequestTopic(Struct):
        name: str = at(0, "string", until=7)
        partition_indexes: list[int] = at(0, ["int32"], until=7)

    class OffsetFetchRequestGroup(Struct):
        group_id: str = at(8, "string")
        member_id: str | None = at(9, "string", null=9, default=None)
        member_epoch: int = at(9, "int32", default=-1)
        topics: list[OffsetFetchRequest.OffsetFetchRequestTopics] | None = at(8, ["OffsetFetchRequestTopics"], null=8)

    class OffsetFetchRequestTopics(Struct):
        name: str = at(8, "string", until=9)
        topic_id: bytes = at(10, "uuid")
        partition_indexes: list[int] = at(8, ["int32"])

    group_id: str = at(0, "string", until=7)
    topics: list[OffsetFetchRequest.OffsetFetchRequestTopic] | None = at(
        0, ["OffsetFetchRequestTopic"], until=7, null=2
    )
    groups: list[OffsetFetchRequest.OffsetFetchRequestGroup] = at(8, ["OffsetFetchRequestGroup"])
    require_stable: bool = at(7, "bool")
