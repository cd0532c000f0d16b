"""Topics as Kafka's producers and consumers ask for them: one that is not there is made, if the cluster does so."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from moldau.admin.classic.java import JavaError
from moldau.admin.classic.kafka_errors import PACKAGE, kafka_error
from moldau.client.client import ANYONE, Client
from moldau.model import Code
from moldau.model.ids import is_topic_name
from moldau.wire.messages.k03_metadata import MetadataRequest


async def want_topics(client: Client, names: Collection[str], *, timeout_ms: int) -> bool:
    """Ask for topics so that the cluster may make them (auto.create.topics.enable); whether the client knows all now.

    OSError when nobody answers within the time.
    """
    kind = MetadataRequest
    topics = [kind.MetadataRequestTopic(name=name) for name in names]
    await client.ask(
        kind(topics=topics, allow_auto_topic_creation=True), ANYONE, codes=lambda response: (), timeout_ms=timeout_ms
    )
    await client.know(names, timeout_ms=timeout_ms)
    return all(name in client.view.topics for name in names)


async def await_topic(client: Client, topic: str, block_ms: int) -> None:
    """Wait until the topic is known; the cluster may make it now. JavaError, as of Kafka's producer, when it is not."""
    if topic in client.view.topics:
        return
    if not is_topic_name(topic):
        raise JavaError(f"{PACKAGE}InvalidTopicException", f"Invalid topics: [{topic}]")
    answered = False
    deadline_ms = client.lines.now_ms() + block_ms
    while (left_ms := deadline_ms - client.lines.now_ms()) > 0:
        with suppress(OSError):
            if await want_topics(client, [topic], timeout_ms=left_ms):
                return
            answered = True
        await client.lines.pause(min(left_ms, 100))  # no broker tells that it has made a topic, or is there again
    cause = kafka_error(Code.UNKNOWN_TOPIC_OR_PARTITION) if answered else None
    why = f"Topic {topic} not present in metadata after {block_ms} ms."
    raise JavaError(f"{PACKAGE}TimeoutException", why, cause)
