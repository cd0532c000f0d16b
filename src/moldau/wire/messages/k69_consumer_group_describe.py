"""ConsumerGroupDescribe: request and response, every version.

Api key 69. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class ConsumerGroupDescribeResponse(Message, key=69, versions=(0, 1)):
    """Answers ConsumerGroupDescribe."""

    class DescribedGroup(Struct):
        error_code: int = at(0, "int16")
        error_message: str | None = at(0, "string", null=0, default=None)
        group_id: str = at(0, "string")
        group_state: str = at(0, "string")
        group_epoch: int = at(0, "int32")
        assignment_epoch: int = at(0, "int32")
        assignor_name: str = at(0, "string")
        members: list[ConsumerGroupDescribeResponse.Member] = at(0, ["Member"])
        authorized_operations: int = at(0, "int32", default=-2147483648)

    class Member(Struct):
        member_id: str = at(0, "string")
        instance_id: str | None = at(0, "string", null=0, default=None)
        rack_id: str | None = at(0, "string", null=0, default=None)
        member_epoch: int = at(0, "int32")
        client_id: str = at(0, "string")
        client_host: str = at(0, "string")
        subscribed_topic_names: list[str] = at(0, ["string"])
        subscribed_topic_regex: str | None = at(0, "string", null=0, default=None)
        assignment: ConsumerGroupDescribeResponse.Assignment = at(0, "Assignment")
        target_assignment: ConsumerGroupDescribeResponse.Assignment = at(0, "Assignment")
        member_type: int = at(1, "int8", default=-1)

    class TopicPartitions(Struct):
        topic_id: bytes = at(0, "uuid")
        topic_name: str = at(0, "string")
        partitions: list[int] = at(0, ["int32"])

    class Assignment(Struct):
        topic_partitions: list[ConsumerGroupDescribeResponse.TopicPartitions] = at(0, ["TopicPartitions"])

    throttle_time_ms: int = at(0, "int32")
    groups: list[ConsumerGroupDescribeResponse.DescribedGroup] = at(0, ["DescribedGroup"])


class ConsumerGroupDescribeRequest(Request[ConsumerGroupDescribeResponse], key=69, versions=(0, 1)):
    """Asks ConsumerGroupDescribe."""

    group_ids: list[str] = at(0, ["string"])
    include_authorized_operations: bool = at(0, "bool")
