"""ConsumerGroupHeartbeat: request and response, every version.

Api key 68. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class ConsumerGroupHeartbeatResponse(Message, key=68, versions=(0, 1)):
    """Answers ConsumerGroupHeartbeat."""

    class Assignment(Struct):
        topic_partitions: list[ConsumerGroupHeartbeatResponse.TopicPartitions] = at(0, ["TopicPartitions"])

    class TopicPartitions(Struct):
        topic_id: bytes = at(0, "uuid")
        partitions: list[int] = at(0, ["int32"])

    throttle_time_ms: int = at(0, "int32")
    error_code: int = at(0, "int16")
    error_message: str | None = at(0, "string", null=0, default=None)
    member_id: str | None = at(0, "string", null=0, default=None)
    member_epoch: int = at(0, "int32")
    heartbeat_interval_ms: int = at(0, "int32")
    assignment: ConsumerGroupHeartbeatResponse.Assignment | None = at(0, "Assignment", null=0, default=None)


class ConsumerGroupHeartbeatRequest(Request[ConsumerGroupHeartbeatResponse], key=68, versions=(0, 1)):
    """Asks ConsumerGroupHeartbeat."""

    class TopicPartitions(Struct):
        topic_id: bytes = at(0, "uuid")
        partitions: list[int] = at(0, ["int32"])

    group_id: str = at(0, "string")
    member_id: str = at(0, "string")
    member_epoch: int = at(0, "int32")
    instance_id: str | None = at(0, "string", null=0, default=None)
    rack_id: str | None = at(0, "string", null=0, default=None)
    rebalance_timeout_ms: int = at(0, "int32", default=-1)
    subscribed_topic_names: list[str] | None = at(0, ["string"], null=0, default=None)
    subscribed_topic_regex: str | None = at(1, "string", null=1, default=None)
    server_assignor: str | None = at(0, "string", null=0, default=None)
    topic_partitions: list[ConsumerGroupHeartbeatRequest.TopicPartitions] | None = at(
        0, ["TopicPartitions"], null=0, default=None
    )
