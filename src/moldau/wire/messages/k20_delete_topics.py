"""DeleteTopics: request and response, every version.

Api key 20. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class DeleteTopicsResponse(Message, key=20, versions=(0, 6), flexible=4):
    """Answers DeleteTopics."""

    class DeletableTopicResult(Struct):
        name: str | None = at(0, "string", null=6)
        topic_id: bytes = at(6, "uuid")
        error_code: int = at(0, "int16")
        error_message: str | None = at(5, "string", null=5, default=None)

    throttle_time_ms: int = at(1, "int32")
    responses: list[DeleteTopicsResponse.DeletableTopicResult] = at(0, ["DeletableTopicResult"])


class DeleteTopicsRequest(Request[DeleteTopicsResponse], key=20, versions=(0, 6), flexible=4):
    """Asks DeleteTopics."""

    class DeleteTopicState(Struct):
        name: str | None = at(6, "string", null=6, default=None)
        topic_id: bytes = at(6, "uuid")

    topics: list[DeleteTopicsRequest.DeleteTopicState] = at(6, ["DeleteTopicState"])
    topic_names: list[str] = at(0, ["string"], until=5)
    timeout_ms: int = at(0, "int32")
