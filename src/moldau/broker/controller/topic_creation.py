"""Topics that a broker asks for itself: a client named one that is not there, or the groups need their log.

Settings are the cluster's defaults. The groups' log is made whole or not yet: with fewer brokers registered than
offsets.topic.replication.factor asks for, groups wait, as in Kafka; made with what there is while a cluster starts, it
would keep one replica for ever.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Hashable

from moldau.broker.config.node_config import NodeConfig
from moldau.broker.controller.channel import NodeToControllerChannel
from moldau.broker.loop import each
from moldau.broker.metadata.applied import WithMetadata, wait_until_applied
from moldau.broker.network.peers import PassedOn
from moldau.image import Image
from moldau.model import Code
from moldau.model.named import NamedTuple
from moldau.model.protocol import Protocol
from moldau.wire.messages.k19_create_topics import CreateTopicsRequest, CreateTopicsResponse

log = logging.getLogger(__name__)

OFFSETS = "__consumer_offsets"
NAMED_MS = 2_000
"""How long a client that names a topic, or looks for a group's coordinator, waits for one. It asks again by itself, and
Kafka's brokers answer it at once; while it waits room is kept for its response, which may be large, and others who ask
for metadata may have to wait. Its own patience may be ten seconds, after which its application is told of an error."""
_FOR_NOW = (
    Code.INVALID_REPLICATION_FACTOR,
    Code.THROTTLING_QUOTA_EXCEEDED,
    Code.NOT_CONTROLLER,
    Code.REQUEST_TIMED_OUT,
)
"""What may be otherwise the next time."""
_MADE = frozenset({Code.NONE, Code.TOPIC_ALREADY_EXISTS})
Topic = CreateTopicsRequest.CreatableTopic
Config = CreateTopicsRequest.CreatableTopicConfig


class Creating(WithMetadata, Protocol):
    """A broker that may ask for topics."""

    @property
    def config(self) -> NodeConfig: ...

    @property
    def controller_channel(self) -> NodeToControllerChannel: ...

    @property
    def creating(self) -> Counter[str]:
        """Topics whose creation was asked for and has no answer yet: how often."""


class CreationRequest(NamedTuple):
    """For whom topics are created, and how long that may take."""

    client: PassedOn | None
    timeout_ms: int
    who: Hashable


async def create_automatically(
    node: Creating,
    names: Collection[str],
    client: PassedOn | None = None,
    *,
    timeout_ms: int = NAMED_MS,
    who: Hashable = None,
) -> dict[str, Code]:
    """Create topics under the cluster's defaults; name -> code of those that could not be. ``node.creating`` counts
    them until every live broker has been told of them. ``client``: whose quota they cost; ``who``: its connection.
    A controller is waited for as long as ``timeout_ms``."""
    node.creating.update(names)
    try:
        return await _create(node, names, CreationRequest(client, timeout_ms, who))
    finally:
        node.creating.subtract(names)
        for name in names:
            if not node.creating[name]:  # names that clients made up would stay for ever
                del node.creating[name]


async def _create(
    node: Creating,
    names: Collection[str],
    asked: CreationRequest,
) -> dict[str, Code]:
    own = await each(node, names, lambda name: _wanted(node, name))
    try:
        answer: CreateTopicsResponse = await node.controller_channel.send_with_retry(
            CreateTopicsRequest(topics=own), asked.timeout_ms, asked.who, asked.client
        )
    except OSError:
        return dict.fromkeys(names, Code.LEADER_NOT_AVAILABLE)
    refused: dict[str, Code] = {}
    reasons: dict[tuple[Code, str], list[str]] = {}

    def take(topic: CreateTopicsResponse.CreatableTopicResult) -> None:
        if topic.error_code not in _MADE:
            code = Code(topic.error_code)
            refused[topic.name] = Code.LEADER_NOT_AVAILABLE if code in _FOR_NOW else code
            reasons.setdefault((code, topic.error_message or ""), []).append(topic.name)

    await each(node, answer.topics, take)
    for (code, why), told in reasons.items():  # one client may name a hundred thousand
        others = f" and {len(told) - 1} others" if len(told) > 1 else ""
        log.warning("topic %s%s cannot be made (yet): %s %s", told[0], others, code.name, why)
    wanted = [name for name in names if name not in refused]
    await wait_until_applied(node, lambda image: all(_is_led(image, name) for name in wanted))
    return refused


def _is_led(image: Image, name: str) -> bool:
    topic = image.topic(name)
    return topic is not None and all(partition.leader >= 0 for partition in topic.partitions.values())


def _wanted(
    node: Creating,
    name: str,
) -> Topic:
    return _offsets(node) if name == OFFSETS else Topic(name=name, num_partitions=-1, replication_factor=-1)


def _offsets(node: Creating) -> Topic:
    config = node.config
    return Topic(
        name=OFFSETS,
        num_partitions=config["offsets.topic.num.partitions"],
        replication_factor=config["offsets.topic.replication.factor"],
        configs=[
            Config(name="cleanup.policy", value="compact"),
            Config(name="compression.type", value="producer"),
            Config(name="segment.bytes", value=str(config["offsets.topic.segment.bytes"])),
        ],
    )
