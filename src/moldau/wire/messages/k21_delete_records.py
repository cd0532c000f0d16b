"""DeleteRecords: request and response, every version.

Api key 21. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class DeleteRecordsResponse(Message, key=21, versions=(0, 2), flexible=2):
    """Answers DeleteRecords."""

    class DeleteRecordsTopicResult(Struct):
        name: str = at(0, "string")
        partitions: list[DeleteRecordsResponse.DeleteRecordsPartitionResult] = at(0, ["DeleteRecordsPartitionResult"])

    class DeleteRecordsPartitionResult(Struct):
        partition_index: int = at(0, "int32")
        low_watermark: int = at(0, "int64")
        error_code: int = at(0, "int16")

    throttle_time_ms: int = at(0, "int32")
    topics: list[DeleteRecordsResponse.DeleteRecordsTopicResult] = at(0, ["DeleteRecordsTopicResult"])


class DeleteRecordsRequest(Request[DeleteRecordsResponse], key=21, versions=(0, 2), flexible=2):
    """Asks DeleteRecords."""

    class DeleteRecordsTopic(Struct):
        name: str = at(0, "string")
        partitions: list[DeleteRecordsRequest.DeleteRecordsPartition] = at(0, ["DeleteRecordsPartition"])

    class DeleteRecordsPartition(Struct):
        partition_index: int = at(0, "int32")
        offset: int = at(0, "int64")

    topics: list[DeleteRecordsRequest.DeleteRecordsTopic] = at(0, ["DeleteRecordsTopic"])
    timeout_ms: int = at(0, "int32")
