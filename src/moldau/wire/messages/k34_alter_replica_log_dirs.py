"""AlterReplicaLogDirs: request and response, every version.

Api key 34. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class AlterReplicaLogDirsResponse(Message, key=34, versions=(0, 2), flexible=2):
    """Answers AlterReplicaLogDirs."""

    class AlterReplicaLogDirTopicResult(Struct):
        topic_name: str = at(0, "string")
        partitions: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult] = at(
            0, ["AlterReplicaLogDirPartitionResult"]
        )

    class AlterReplicaLogDirPartitionResult(Struct):
        partition_index: int = at(0, "int32")
        error_code: int = at(0, "int16")

    throttle_time_ms: int = at(0, "int32")
    results: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult] = at(0, ["AlterReplicaLogDirTopicResult"])


class AlterReplicaLogDirsRequest(Request[AlterReplicaLogDirsResponse], key=34, versions=(0, 2), flexible=2):
    """Asks AlterReplicaLogDirs."""

    class AlterReplicaLogDir(Struct):
        path: str = at(0, "string")
        topics: list[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic] = at(0, ["AlterReplicaLogDirTopic"])

    class AlterReplicaLogDirTopic(Struct):
        name: str = at(0, "string")
        partitions: list[int] = at(0, ["int32"])

    dirs: list[AlterReplicaLogDirsRequest.AlterReplicaLogDir] = at(0, ["AlterReplicaLogDir"])
