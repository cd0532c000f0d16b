"""DescribeCluster: request and response, every version.

Api key 60. Source: protocol guide; KIP-700.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class DescribeClusterResponse(Message, key=60, versions=(0, 2)):
    """Answers DescribeCluster."""

    class DescribeClusterBroker(Struct):
        broker_id: int = at(0, "int32")
        host: str = at(0, "string")
        port: int = at(0, "int32")
        rack: str | None = at(0, "string", null=0, default=None)
        is_fenced: bool = at(2, "bool")

    throttle_time_ms: int = at(0, "int32")
    error_code: int = at(0, "int16")
    error_message: str | None = at(0, "string", null=0, default=None)
    endpoint_type: int = at(1, "int8", default=1)
    cluster_id: str = at(0, "string")
    controller_id: int = at(0, "int32", default=-1)
    brokers: list[DescribeClusterResponse.DescribeClusterBroker] = at(0, ["DescribeClusterBroker"])
    cluster_authorized_operations: int = at(0, "int32", default=-2147483648)


class DescribeClusterRequest(Request[DescribeClusterResponse], key=60, versions=(0, 2)):
    """Asks DescribeCluster."""

    include_cluster_authorized_operations: bool = at(0, "bool")
    endpoint_type: int = at(1, "int8", default=1)
    include_fenced_brokers: bool = at(2, "bool")
