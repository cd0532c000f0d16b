"""Metadata, 0-13: brokers, topics, leaders, as the committed image has them.

All topics (null, or an empty list in version 0), by name, or by id (10+). An unknown name is created first when both
the
request and ``auto.create.topics.enable`` allow it; the answer then waits until it can name leaders, so that a client's
first produce does not meet an error. Addresses are those of the listener that was asked. Offline replicas from 5 on.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from moldau.broker.api.forwarding import seen
from moldau.broker.api.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from moldau.broker.asking import pause
from moldau.broker.topics import create_automatically
from moldau.image import Image, Partition, Topic
from moldau.terms import NO_UUID, Code
from moldau.wire.messages.k03_metadata import MetadataRequest, MetadataResponse

INTERNAL = frozenset({"__consumer_offsets", "__transaction_state"})
SETTLED_MS = 1000
"""A client that asks on a connection older than this is not just starting: something has changed for it."""
GLANCE_MS = 20
Shown = MetadataResponse.MetadataResponseTopic


def handle(node: Any, request: MetadataRequest, context: Any) -> MetadataResponse | Awaitable[MetadataResponse]:
    """Answer now, or after topics were created."""
    settled = node.world.clock.monotonic_ms() - context.connection.since_ms >= SETTLED_MS
    if settled or node.suspects_a_death():
        return _settled(node, request, context, GLANCE_MS if settled else 0)
    missing = _to_create(node, request, context)
    if missing:
        return _create_first(node, request, context, missing)
    return _answer(node, request, context)


async def _settled(node: Any, request: MetadataRequest, context: Any, glance_ms: int) -> MetadataResponse:
    """Answer when a death in the making is in the image, or was none.

    A client that lost its leader asks at once, and librdkafka then waits a second before it asks again: an answer that
    still names the dead one costs it far more than the moment the election takes. A dying process's connections break
    one after the other, so the client may know a little before us: it is answered after a glance.
    """
    if glance_ms:
        await pause(node.world.tasks, glance_ms)
    await seen(node, lambda image: not node.suspects_a_death())
    missing = _to_create(node, request, context)
    return await _create_first(node, request, context, missing) if missing else _answer(node, request, context)


def _to_create(node: Any, request: MetadataRequest, context: Any) -> list[str]:
    if not request.topics or not node.config["auto.create.topics.enable"]:
        return []
    if not request.allow_auto_topic_creation and context.api_version >= 4:
        return []
    names = node.metadata.image.names
    return [t.name for t in request.topics if t.name is not None and t.name not in names and t.topic_id == NO_UUID]


async def _create_first(node: Any, request: MetadataRequest, context: Any, names: list[str]) -> MetadataResponse:
    refused = await create_automatically(node, names)
    answer = _answer(node, request, context)
    for topic in answer.topics:
        if topic.name in refused:
            topic.error_code = refused[topic.name]
    return answer


def _answer(node: Any, request: MetadataRequest, context: Any) -> MetadataResponse:
    image: Image = node.metadata.image
    hosts = {}
    answer = MetadataResponse(cluster_id=node.cluster_id)
    for broker in (*image.live_brokers(), *node.just_gone.brokers()):
        endpoint = broker.endpoint(context.listener)
        if endpoint is not None:
            hosts[broker.id] = endpoint
            answer.brokers.append(
                MetadataResponse.MetadataResponseBroker(
                    node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack
                )
            )
    answer.controller_id = node.controller_shown(hosts)
    live = {broker.id for broker in image.brokers.values() if not broker.fenced}
    if request.topics is None or (context.api_version == 0 and not request.topics):
        answer.topics = [_topic(image, topic, live, hosts) for topic in image.topics.values()]
    else:
        answer.topics = [_asked(image, asked, live, hosts, context.api_version) for asked in request.topics]
    if request.include_topic_authorized_operations:
        for shown in answer.topics:
            shown.topic_authorized_operations = TOPIC_OPERATIONS
    if request.include_cluster_authorized_operations:
        answer.cluster_authorized_operations = CLUSTER_OPERATIONS
    return answer


def _asked(
    image: Image, asked: MetadataRequest.MetadataRequestTopic, live: set[int], hosts: Any, version: int
) -> Shown:
    if asked.name is None or (version >= 10 and asked.topic_id != NO_UUID):
        topic = image.topics.get(asked.topic_id)
        if topic is None:
            code = Code.UNKNOWN_TOPIC_ID
            return Shown(error_code=code, name=(asked.name or "") if version < 12 else None, topic_id=asked.topic_id)
        return _topic(image, topic, live, hosts)
    topic = image.topic(asked.name)
    if topic is None:
        from moldau.controller.topics import bad_name

        code = Code.INVALID_TOPIC_EXCEPTION if bad_name(asked.name) is not None else Code.UNKNOWN_TOPIC_OR_PARTITION
        return Shown(error_code=code, name=asked.name, is_internal=asked.name in INTERNAL)
    return _topic(image, topic, live, hosts)


def _topic(image: Image, topic: Topic, live: set[int], hosts: Any) -> Shown:
    return Shown(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL,
        partitions=[_partition(topic.partitions[number], live, hosts) for number in sorted(topic.partitions)],
    )


def _partition(partition: Partition, live: set[int], hosts: Any) -> MetadataResponse.MetadataResponsePartition:
    code, leader = Code.NONE, partition.leader
    if leader not in live:
        code, leader = Code.LEADER_NOT_AVAILABLE, -1
    elif leader not in hosts:
        code, leader = Code.LISTENER_NOT_FOUND, -1
    return MetadataResponse.MetadataResponsePartition(
        error_code=code,
        partition_index=partition.id,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=[r for r in partition.replicas if r not in live],
    )
