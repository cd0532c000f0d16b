"""Metadata, 0-13: brokers, topics, leaders, as the committed image has them.

All topics (null, or an empty list in version 0), by name, or by id (10+). An unknown name is created first when both
the request and ``auto.create.topics.enable`` allow it; the answer then waits until it can name leaders, so that a
client's first produce does not meet an error, though not for long where no controller answers (LEADER_NOT_AVAILABLE,
on which clients ask again). Of a topic that was deleted a moment ago it says so, as Kafka's brokers do, and it is
created then. Addresses are those of the listener that was asked. Offline replicas from 5 on.
An answer of thousands of partitions is put together over many turns of the loop, each partition as it is then: epochs
tell a client which of two answers is the newer one. What has not changed since somebody asked is not encoded again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Container, Generator, Iterator

from moldau.broker.api.forwarding import passed_on
from moldau.broker.api.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from moldau.broker.controller.topic_creation import NAMED_MS, create_automatically
from moldau.broker.loop import Pace, answer_in_slices, each, run_to_end, yield_to_loop
from moldau.broker.metadata.applied import wait_until_applied
from moldau.broker.metadata.encoded_topics import EncodedTopic, EncodedTopics, Variant
from moldau.broker.metadata.undecided import Undecided
from moldau.broker.network.context import Context
from moldau.broker.services import BrokerServices
from moldau.image import Endpoint, Image, Partition, Topic
from moldau.model import NO_UUID, Code
from moldau.wire.codec import Packed
from moldau.wire.messages.k03_metadata import MetadataRequest, MetadataResponse
from moldau.wire.messages.k19_create_topics import CreateTopicsRequest

log = logging.getLogger(__name__)

INTERNAL = frozenset({"__consumer_offsets", "__transaction_state"})
SETTLED_MS = 1000
"""A client that asks on a connection older than this is not just starting: something has changed for it."""
TURNS_TO_HEAR = 3
"""Turns of the loop after which the ends of connections that had come before have been told."""
Shown = MetadataResponse.MetadataResponseTopic
ShownPartition = MetadataResponse.MetadataResponsePartition


def handle(
    node: BrokerServices, request: MetadataRequest, context: Context
) -> MetadataResponse | Awaitable[MetadataResponse]:
    """Answer now, or after topics were created."""
    settled = node.world.clock.monotonic_ms() - context.connection.since_ms >= SETTLED_MS
    if settled or node.suspects_a_death():
        return _when_known(node, request, context)
    return _unless_long(node, request, context)


def _unless_long(
    node: BrokerServices, request: MetadataRequest, context: Context
) -> MetadataResponse | Awaitable[MetadataResponse]:
    """Answer here and now, where neither the request nor the answer is long, and nothing is to be created."""
    if len(request.topics or ()) > node.world.step:
        return _long(node, request, context)
    missing = run_to_end(_to_create(node, request, context))
    if missing:
        return _create_first(node, request, context, missing)
    if _is_long(node, request, context):
        return answer_in_slices(node.world.tasks, MetadataRequest.api_key, _steps(node, request, context, {}))
    return _answer(node, request, context, {})


async def _when_known(node: BrokerServices, request: MetadataRequest, context: Context) -> MetadataResponse:
    """Answer when a death in the making is in the image, or was none.

    A client that lost its leader asks at once, and librdkafka then waits a second before it asks again: an answer that
    still names the dead one costs it far more than the moment the election takes. A dying process's connections break
    one after the other, so the client may know a little before us: what has come by now is heard first. Nobody else
    waits.
    """
    for _ in range(TURNS_TO_HEAR):
        await yield_to_loop(node.world.tasks)
    if node.suspects_a_death():
        await wait_until_applied(node, lambda image: not node.suspects_a_death())
    answer = _unless_long(node, request, context)
    return answer if isinstance(answer, MetadataResponse) else await answer


async def _long(
    node: BrokerServices,
    request: MetadataRequest,
    context: Context,
) -> MetadataResponse:
    """Answer when it is known, some topics in each turn of the loop, which of them are to be created."""
    missing = await answer_in_slices(node.world.tasks, MetadataRequest.api_key, _to_create(node, request, context))
    return await _create_first(node, request, context, missing)


def _to_create(
    node: BrokerServices,
    request: MetadataRequest,
    context: Context,
) -> Generator[None, None, list[str]]:
    """Names of topics that are to be created, each once; with pauses. The others' are refused without asking the
    controller."""
    if not request.topics or not node.config["auto.create.topics.enable"]:
        return []
    if not request.allow_auto_topic_creation and context.api_version >= 4:
        return []
    from moldau.controller.topics import bad_name

    names, pace = node.metadata.image.names, Pace(node.world.step)
    wanted: dict[str, None] = {}
    for topic in request.topics:
        name = topic.name
        if name is not None and name not in names and topic.topic_id == NO_UUID and bad_name(name) is None:
            wanted[name] = None
        if pace.spent(1):
            yield
    return list(wanted)


async def _create_first(
    node: BrokerServices, request: MetadataRequest, context: Context, names: list[str]
) -> MetadataResponse:
    """Create topics, if there are any to be created, and answer."""
    refused = {}
    deleted = await _just_deleted(node, names)
    if later := [name for name in deleted if not node.creating[name]]:
        node.world.tasks.spawn(_create_later(node, later, context), "topics named after their deletion")
    if missing := [name for name in names if name not in deleted]:
        refused = await _create(node, missing, context)
    if _is_long(node, request, context):
        return await answer_in_slices(
            node.world.tasks, MetadataRequest.api_key, _steps(node, request, context, refused)
        )
    return _answer(node, request, context, refused)


async def _just_deleted(node: BrokerServices, names: list[str]) -> dict[str, None]:
    """The names whose topics were deleted a moment ago."""
    known = node.recently_gone.deleted
    gone = await each(node, names, lambda name: name in known)
    return {name: None for name, is_gone in zip(names, gone, strict=True) if is_gone}


async def _create(node: BrokerServices, names: list[str], context: Context) -> dict[str, Code]:
    """Create topics for a client; name -> code of those that could not be."""
    client = passed_on(node, context.client_id, CreateTopicsRequest.versions[1])
    return await create_automatically(node, names, client, timeout_ms=NAMED_MS, who=context.connection)


async def _create_later(node: BrokerServices, names: list[str], context: Context) -> None:
    """Create topics for a client that does not wait for it: an error costs it these topics, for which it asks again."""
    try:
        await _create(node, names, context)
    except AssertionError:
        raise
    except Exception as error:
        log.error("topic %s, named after its deletion, was not created: %r", names[0], error, exc_info=error)


def _wants_all(request: MetadataRequest, version: int) -> bool:
    return request.topics is None or (version == 0 and not request.topics)


def _kept(node: BrokerServices, request: MetadataRequest, context: Context) -> EncodedTopic:
    """What was encoded already for such a request."""
    variant = Variant(context.api_version, context.listener, request.include_topic_authorized_operations)
    return node.encoded_topics.of(variant)


def _is_long(node: BrokerServices, request: MetadataRequest, context: Context) -> bool:
    """Whether there is more to show than one step of the loop should hold."""
    version = context.api_version
    image: Image = node.metadata.image
    if request.topics is None or _wants_all(request, version):
        if _kept(node, request, context).everything is not None:
            return False
        much = image.partition_count() + len(image.topics)
    elif len(request.topics) > node.world.step:
        return True
    else:
        topics = (image.topics.get(asked.topic_id) or image.topic(asked.name or "") for asked in request.topics)
        much = sum(1 if topic is None else len(topic.partitions) for topic in topics)
    return much > int(node.world.step)


def _answer(
    node: BrokerServices, request: MetadataRequest, context: Context, refused: dict[str, Code]
) -> MetadataResponse:
    """The answer, at once."""
    return run_to_end(_steps(node, request, context, refused, at_once=True))


def _steps(
    node: BrokerServices, request: MetadataRequest, context: Context, refused: dict[str, Code], *, at_once: bool = False
) -> Generator[None, None, MetadataResponse]:
    """The answer, with a pause after so many partitions; topics that have not changed are not encoded again."""
    answer, hosts, live = _begin(node, request, context)
    cache: EncodedTopics = node.encoded_topics
    kept = _kept(node, request, context)
    of_all = _wants_all(request, context.api_version) and not refused
    if of_all and kept.everything is not None:
        answer.topics = kept.everything  # type: ignore[assignment]  # stands for the list
        return answer
    changes = cache.changes
    packed = Packed(Shown, MetadataResponse, context.api_version)
    told = 0
    for found in _found(node, request, context.api_version):
        if found is None:
            pass
        elif isinstance(found, Topic) and found.name not in refused:
            while found.id in kept.being_encoded and not at_once:
                yield
            data = kept.topics.get(found.id)
            if data is None:
                kept.being_encoded.add(found.id)
                try:
                    told, data = yield from _encode(node, request, context, found, (told, hosts, live))
                finally:
                    kept.being_encoded.discard(found.id)
                cache.keep(kept, changes, found.id, data)
            packed.add_encoded(data)
        else:
            shown = _head(found, request, refused)
            if isinstance(found, Topic):
                shown.partitions = [_partition(p, live, hosts) for _, p in sorted(found.partitions.items())]
            packed.add(shown)
        told += 1
        if told % node.world.step == 0:
            yield
    if of_all and changes == cache.changes:
        kept.everything = packed
    answer.topics = packed  # type: ignore[assignment]  # stands for the list
    return answer


def _encode(
    node: BrokerServices,
    request: MetadataRequest,
    context: Context,
    topic: Topic,
    begun: tuple[int, dict[int, Endpoint], set[int]],
) -> Generator[None, None, tuple[int, bytes]]:
    """How many partitions have been told then, and the topic as an item of the answer."""
    told, hosts, live = begun
    parts = Packed(ShownPartition, MetadataResponse, context.api_version)
    for number in sorted(topic.partitions):
        parts.add(_partition(topic.partitions[number], live, hosts))
        told += 1
        if told % node.world.step == 0:
            yield
    shown = _head(topic, request, {})
    shown.partitions = parts  # type: ignore[assignment]  # stands for the list
    one = Packed(Shown, MetadataResponse, context.api_version)
    one.add(shown)
    return told, bytes(one.data)


def _begin(
    node: BrokerServices, request: MetadataRequest, context: Context
) -> tuple[MetadataResponse, dict[int, Endpoint], set[int]]:
    """An answer without topics, brokers' addresses, and who is not fenced."""
    image: Image = node.metadata.image
    hosts: dict[int, Endpoint] = {}
    answer = MetadataResponse(cluster_id=node.cluster_id)
    for broker in (*image.live_brokers(), *node.recently_gone.fenced.brokers()):
        endpoint = broker.endpoint(context.listener)
        if endpoint is not None:
            hosts[broker.id] = endpoint
            answer.brokers.append(
                MetadataResponse.MetadataResponseBroker(
                    node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack
                )
            )
    answer.controller_id = node.controller_shown(hosts)
    if request.include_cluster_authorized_operations:
        answer.cluster_authorized_operations = CLUSTER_OPERATIONS
    return answer, hosts, {broker.id for broker in image.brokers.values() if not broker.fenced}


def _found(node: BrokerServices, request: MetadataRequest, version: int) -> Iterator[Topic | Shown | None]:
    """What was asked for, one by one: topics, answers in place of those that are not there, None for what was named
    before: as in Kafka each is told once, or an answer could be thousands of times the size of its request.
    """
    image, undecided = node.metadata.image, node.replicas.undecided
    if _wants_all(request, version):
        yield from map(undecided.whole, list(image.topics.values()))
    else:
        told: set[object] = set()
        for asked in request.topics or ():
            found = _asked(image, undecided, asked, version)
            key = (found.name, found.topic_id) if isinstance(found, Shown) else found.id
            yield None if key in told else found
            told.add(key)


def _head(found: Topic | Shown, request: MetadataRequest, refused: dict[str, Code]) -> Shown:
    """What is said of a topic besides its partitions."""
    if isinstance(found, Topic):
        shown = Shown(name=found.name, topic_id=found.id, is_internal=found.name in INTERNAL)
    else:
        shown = found
    if request.include_topic_authorized_operations:
        shown.topic_authorized_operations = TOPIC_OPERATIONS
    if shown.name in refused:
        shown.error_code = refused[shown.name]
    return shown


def _asked(
    image: Image, undecided: Undecided, asked: MetadataRequest.MetadataRequestTopic, version: int
) -> Topic | Shown:
    if asked.name is None or (version >= 10 and asked.topic_id != NO_UUID):
        topic = undecided.topic(image, asked.topic_id)
        if topic is None:
            code = Code.UNKNOWN_TOPIC_ID
            return Shown(error_code=code, name=(asked.name or "") if version < 12 else None, topic_id=asked.topic_id)
        return topic
    topic = image.topic(asked.name)
    if topic is None:
        from moldau.controller.topics import bad_name

        code = Code.INVALID_TOPIC_EXCEPTION if bad_name(asked.name) is not None else Code.UNKNOWN_TOPIC_OR_PARTITION
        return Shown(error_code=code, name=asked.name, is_internal=asked.name in INTERNAL)
    return undecided.whole(topic)


def _partition(partition: Partition, live: set[int], hosts: Container[int]) -> ShownPartition:
    code, leader = Code.NONE, partition.leader
    if leader not in live:
        code, leader = Code.LEADER_NOT_AVAILABLE, -1
    elif leader not in hosts:
        code, leader = Code.LISTENER_NOT_FOUND, -1
    return ShownPartition(
        error_code=code,
        partition_index=partition.id,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=[r for r in partition.replicas if r not in live],
    )
