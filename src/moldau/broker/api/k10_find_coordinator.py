"""FindCoordinator, 0-6: the broker that coordinates a group; several groups in one request from 4 on (KIP-699).

That is the leader of the group's partition of __consumer_offsets, which is created when it is asked for first. Answers
COORDINATOR_NOT_AVAILABLE, which clients retry, until it is led. Whoever asks while this broker has it created waits
until the others were told too, for a few seconds at most: librdkafka, which twice met a coordinator that did not know
yet, rests for 3 s. No broker of Moldau coordinates transactions or share groups, and their keys are refused with a
text, unless another broker leads the partition of __transaction_state: one of Apache Kafka coordinates then. A
transactional id is refused as not authorised: of all codes this is the one on which librdkafka ends at once; on
INVALID_REQUEST it asks again until its time is up.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator

from moldau.broker.controller.topic_creation import NAMED_MS, OFFSETS, create_automatically
from moldau.broker.loop import Pace, at_once_or_in_slices, run_in_slices
from moldau.broker.network.context import Context
from moldau.broker.replicas.transactions import STATE, is_coordinated_elsewhere
from moldau.broker.services import BrokerServices
from moldau.groups import partition_for, weight
from moldau.model import Code
from moldau.ports.buggify import UNKNOWN_COORDINATOR
from moldau.wire.messages.k10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

KEY = 10
GROUP, TRANSACTION = 0, 1
Coordinator = FindCoordinatorResponse.Coordinator
KINDS = {1: "transactions", 2: "share groups"}


def handle(
    node: BrokerServices, request: FindCoordinatorRequest, context: Context
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    """Answer from the image, or after the topic was created."""
    if request.key_type == GROUP and (OFFSETS not in node.metadata.image.names or node.creating[OFFSETS]):
        return _create_first(node, request, context)
    return at_once_or_in_slices(node.world.tasks, _answer(node, request, context))


async def _create_first(
    node: BrokerServices, request: FindCoordinatorRequest, context: Context
) -> FindCoordinatorResponse:
    """While that takes long the answer is Kafka's, which does not wait at all: ask again."""
    await create_automatically(node, [OFFSETS], timeout_ms=NAMED_MS, who=OFFSETS)
    return await run_in_slices(node.world.tasks, _answer(node, request, context))


def _answer(
    node: BrokerServices, request: FindCoordinatorRequest, context: Context
) -> Generator[None, None, FindCoordinatorResponse]:
    """The answer, with a pause after so many keys."""
    keys = request.coordinator_keys if context.api_version >= 4 else [request.key]
    found, pace = [], Pace(node.world.step)
    for number, key in enumerate(keys, 1):
        found.append(_find(node, request.key_type, key, context.listener))
        if pace.spent(weight(key)) and number < len(keys):
            yield
    if context.api_version >= 4:
        return FindCoordinatorResponse(coordinators=found)
    one = found[0]
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def _find(node: BrokerServices, kind: int, key: str, listener: str) -> Coordinator:
    image, topic_name = node.metadata.image, OFFSETS
    if kind == TRANSACTION and is_coordinated_elsewhere(node.replicas, key):
        topic_name = STATE
    elif kind != GROUP:
        text = f"This cluster does not coordinate {KINDS.get(kind, f'keys of type {kind}')}."
        code = Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED if kind == TRANSACTION else Code.INVALID_REQUEST
        return _none(key, code, text)
    topic = image.topic(topic_name)
    if (buggify := node.world.buggify) is not None and buggify(UNKNOWN_COORDINATOR):
        topic = None
    partitions = {} if topic is None else node.replicas.undecided.whole(topic).partitions
    # In ZooKeeper mode a topic may be known before its partitions are.
    partition = partitions.get(partition_for(key, len(partitions)))
    if partition is not None:
        leader = partition.leader
        broker = image.brokers.get(leader)
        endpoint = None if broker is None or broker.fenced else broker.endpoint(listener)
        if endpoint is not None:
            return Coordinator(key=key, node_id=leader, host=endpoint.host, port=endpoint.port)
    return _none(key, Code.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available.")


def _none(key: str, code: Code, text: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=text)
