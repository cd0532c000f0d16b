"""CreateTopics: request and response, every version.

Api key 19. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class CreateTopicsResponse(Message, key=19, versions=(0, 7), flexible=5):
    """Answers CreateTopics."""

    class CreatableTopicResult(Struct):
        name: str = at(0, "string")
        topic_id: bytes = at(7, "uuid")
        error_code: int = at(0, "int16")
        error_message: str | None = at(1, "string", null=0)
        topic_config_error_code: int = at(5, "int16", tag=0)
        num_partitions: int = at(5, "int32", default=-1)
        replication_factor: int = at(5, "int16", default=-1)
        configs: list[CreateTopicsResponse.CreatableTopicConfigs] | None = at(5, ["CreatableTopicConfigs"], null=5)

    class CreatableTopicConfigs(Struct):
        name: str = at(5, "string")
        value: str | None = at(5, "string", null=5)
        read_only: bool = at(5, "bool")
        config_source: int = at(5, "int8", default=-1)
        is_sensitive: bool = at(5, "bool")

    throttle_time_ms: int = at(2, "int32")
    topics: list[CreateTopicsResponse.CreatableTopicResult] = at(0, ["CreatableTopicResult"])


class CreateTopicsRequest(Request[CreateTopicsResponse], key=19, versions=(0, 7), flexible=5):
    """Asks CreateTopics."""

    class CreatableTopic(Struct):
        name: str = at(0, "string")
        num_partitions: int = at(0, "int32")
        replication_factor: int = at(0, "int16")
        assignments: list[CreateTopicsRequest.CreatableReplicaAssignment] = at(0, ["CreatableReplicaAssignment"])
        configs: list[CreateTopicsRequest.CreatableTopicConfig] = at(0, ["CreatableTopicConfig"])

    class CreatableReplicaAssignment(Struct):
        partition_index: int = at(0, "int32")
        broker_ids: list[int] = at(0, ["int32"])

    class CreatableTopicConfig(Struct):
        name: str = at(0, "string")
        value: str | None = at(0, "string", null=0)

    topics: list[CreateTopicsRequest.CreatableTopic] = at(0, ["CreatableTopic"])
    timeout_ms: int = at(0, "int32", default=60000)
    validate_only: bool = at(1, "bool")
