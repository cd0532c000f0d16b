"""DescribeLogDirs: request and response, every version.

Api key 35. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class DescribeLogDirsResponse(Message, key=35, versions=(0, 5), flexible=2):
    """Answers DescribeLogDirs."""

    class DescribeLogDirsResult(Struct):
        error_code: int = at(0, "int16")
        log_dir: str = at(0, "string")
        topics: list[DescribeLogDirsResponse.DescribeLogDirsTopic] = at(0, ["DescribeLogDirsTopic"])
        total_bytes: int = at(4, "int64", default=-1)
        usable_bytes: int = at(4, "int64", default=-1)
        is_cordoned: bool = at(5, "bool")

    class DescribeLogDirsTopic(Struct):
        name: str = at(0, "string")
        partitions: list[DescribeLogDirsResponse.DescribeLogDirsPartition] = at(0, ["DescribeLogDirsPartition"])

    class DescribeLogDirsPartition(Struct):
        partition_index: int = at(0, "int32")
        partition_size: int = at(0, "int64")
        offset_lag: int = at(0, "int64")
        is_future_key: bool = at(0, "bool")

    throttle_time_ms: int = at(0, "int32")
    error_code: int = at(3, "int16")
    results: list[DescribeLogDirsResponse.DescribeLogDirsResult] = at(0, ["DescribeLogDirsResult"])


class DescribeLogDirsRequest(Request[DescribeLogDirsResponse], key=35, versions=(0, 5), flexible=2):
    """Asks DescribeLogDirs."""

    class DescribableLogDirTopic(Struct):
        topic: str = at(0, "string")
        partitions: list[int] = at(0, ["int32"])

    topics: list[DescribeLogDirsRequest.DescribableLogDirTopic] | None = at(0, ["DescribableLogDirTopic"], null=0)
