"""AssignReplicasToDirs: request and response, every version.

Api key 73. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class AssignReplicasToDirsResponse(Message, key=73, versions=(0, 0)):
    """Answers AssignReplicasToDirs."""

    class DirectoryData(Struct):
        id: bytes = at(0, "uuid")
        topics: list[AssignReplicasToDirsResponse.TopicData] = at(0, ["TopicData"])

    class TopicData(Struct):
        topic_id: bytes = at(0, "uuid")
        partitions: list[AssignReplicasToDirsResponse.PartitionData] = at(0, ["PartitionData"])

    class PartitionData(Struct):
        partition_index: int = at(0, "int32")
        error_code: int = at(0, "int16")

    throttle_time_ms: int = at(0, "int32")
    error_code: int = at(0, "int16")
    directories: list[AssignReplicasToDirsResponse.DirectoryData] = at(0, ["DirectoryData"])


class AssignReplicasToDirsRequest(Request[AssignReplicasToDirsResponse], key=73, versions=(0, 0)):
    """Asks AssignReplicasToDirs."""

    class DirectoryData(Struct):
        id: bytes = at(0, "uuid")
        topics: list[AssignReplicasToDirsRequest.TopicData] = at(0, ["TopicData"])

    class TopicData(Struct):
        topic_id: bytes = at(0, "uuid")
        partitions: list[AssignReplicasToDirsRequest.PartitionData] = at(0, ["PartitionData"])

    class PartitionData(Struct):
        partition_index: int = at(0, "int32")

    broker_id: int = at(0, "int32")
    broker_epoch: int = at(0, "int64", default=-1)
    directories: list[AssignReplicasToDirsRequest.DirectoryData] = at(0, ["DirectoryData"])
