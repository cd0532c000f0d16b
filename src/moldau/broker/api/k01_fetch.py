"""Fetch, 4-18: records for consumers and followers, at once or when there are enough.

Answered at once when the client will not wait, asks for nothing or for very much, or there is an error, a diverging
epoch, a better replica to read from, or min_bytes of records; else parked until data, watermark or time, or until the
consumer sends something else on the same connection (decision 9). Incremental sessions from version 7, topic ids from
13. Records are one read of the file per partition, handed to the socket as they are.
A follower (replica id >= 0) reads up to the log's end, and its position drives ISR and high watermark.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Iterator
from typing import TYPE_CHECKING

from moldau.broker.loop import InWorld
from moldau.broker.network.requests import RequestContext
from moldau.broker.replicas.fetch.partition import FetchParams
from moldau.broker.replicas.fetch.reader import PARTITIONS_AT_ONCE, FetchReader
from moldau.broker.replicas.fetch.sessions import INITIAL
from moldau.broker.services import QuorumServices
from moldau.model import Code
from moldau.model.protocol import Protocol
from moldau.ports.buggify import EMPTY_FETCH, SHORT_FETCH
from moldau.wire.messages.k01_fetch import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from moldau.broker.config.node_config import NodeConfig
    from moldau.broker.network.context import Context
    from moldau.broker.replicas.manager import ReplicaManager

READ_COMMITTED = 1
Topic = FetchRequest.FetchTopic


class WithReplicas(InWorld, Protocol):
    """A broker."""

    @property
    def config(self) -> NodeConfig: ...

    @property
    def replicas(self) -> ReplicaManager: ...


def handle(
    node: WithReplicas, request: FetchRequest, context: Context
) -> FetchResponse | Awaitable[FetchResponse | None] | Generator[None, None, FetchResponse]:
    """Read what is there, or wait for it."""
    if _names_many(request) or (request.session_id and node.replicas.sessions.is_long(request.session_id)):
        return _long(node, request, context)
    if _is_throttled(context):
        return _throttled(node, request, context)
    reader = _open(node, request, context)
    if isinstance(reader, Code):
        return FetchResponse(error_code=reader)
    answer = reader.fetch(_fetch_params(node, request, context))
    if reader.waiting is not None and context.connection is not None:
        of_consumer = reader.params.replica_id < 0
        context.connection.waiting.add_fetch(reader.waiting, reader.parked_bytes, of_consumer=of_consumer)
    return answer


def _throttled(node: WithReplicas, request: FetchRequest, context: Context) -> FetchResponse:
    """The client has spent its quota and is told so, with nothing else. Its session goes on; a new one is not made: the
    client asks for everything again, as it does of Kafka."""
    if request.session_id == 0 or request.session_epoch == INITIAL:
        return FetchResponse()
    reader = _open(node, request, context)
    return FetchResponse(error_code=reader) if isinstance(reader, Code) else FetchResponse(session_id=reader.session_id)


def _is_throttled(context: Context) -> bool:
    return context.charge is not None and context.charge.throttle_ms > 0


def _long(node: WithReplicas, request: FetchRequest, context: Context) -> Generator[None, None, FetchResponse]:
    """More partitions than one turn should look at: taken in by and by, and answered with what there is by then."""
    while node.replicas.sessions.is_being_read(request):  # what is asked of its partitions must not change meanwhile
        yield
    pieces = _pieces(request.topics)
    request.topics = next(pieces)
    forgotten, request.forgotten_topics_data = request.forgotten_topics_data, []
    reader = _open(node, request, context)
    if isinstance(reader, Code):
        return FetchResponse(error_code=reader)
    reader.being_read, had = True, len(reader.parts)
    by_id = context.api_version >= 13
    try:
        for piece in pieces:
            yield
            reader.add(piece, by_id)
        for topic_id, topic, numbers in _forgotten(forgotten):
            yield
            for number in numbers:
                reader.forget((topic_id if by_id else topic, number))
        node.replicas.sessions.fits(reader, had)
        if _is_throttled(context) and reader.session_id:
            return FetchResponse(session_id=reader.session_id)
        if context.connection is not None:
            context.connection.waiting.hold(reader.answer_bytes)
        answer = yield from reader.fetch_now_in_slices(_fetch_params(node, request, context))
    finally:
        reader.being_read = False
        if reader.closed or not reader.lasting:
            reader.close()
    return answer


def _names_many(request: FetchRequest) -> bool:
    """Whether it takes in or forgets more partitions than one turn should."""
    topics, gone = request.topics, request.forgotten_topics_data
    return bool(
        (topics and sum([len(topic.partitions) for topic in topics]) > PARTITIONS_AT_ONCE)
        or (gone and sum([len(topic.partitions) for topic in gone]) > PARTITIONS_AT_ONCE)
    )


def _forgotten(topics: list[FetchRequest.ForgottenTopic]) -> Iterator[tuple[bytes, str, list[int]]]:
    """What a session is to forget, so many partitions at most at a time."""
    for topic in topics:
        for begin in range(0, len(topic.partitions), PARTITIONS_AT_ONCE):
            numbers = topic.partitions[begin : begin + PARTITIONS_AT_ONCE]
            yield bytes(topic.topic_id), topic.topic, numbers


def _pieces(topics: list[Topic]) -> Iterator[list[Topic]]:
    """The topics, in lists of so many partitions at most."""
    piece: list[Topic] = []
    room = PARTITIONS_AT_ONCE
    for topic in topics:
        for begin in range(0, len(topic.partitions), PARTITIONS_AT_ONCE):
            parts = topic.partitions[begin : begin + PARTITIONS_AT_ONCE]
            if len(parts) > room:
                yield piece
                piece, room = [], PARTITIONS_AT_ONCE
            piece.append(Topic(topic=topic.topic, topic_id=topic.topic_id, partitions=parts))
            room -= len(parts)
    yield piece


def _replica(request: FetchRequest, version: int) -> tuple[int, int]:
    """Replica id and broker epoch of who asks; -1 for consumers."""
    state = request.replica_state
    return (state.replica_id, state.replica_epoch) if version >= 15 else (request.replica_id, -1)


def _open(node: WithReplicas, request: FetchRequest, context: Context) -> FetchReader | Code:
    """The reader, or why its session cannot go on."""
    replica_id, _ = _replica(request, context.api_version)
    return node.replicas.sessions.open(request, context.api_version, follower=replica_id >= 0)


def _fetch_params(node: WithReplicas, request: FetchRequest, context: Context) -> FetchParams:
    """What the request says of all its partitions together, within this broker's bounds."""
    version = context.api_version
    replica_id, broker_epoch = _replica(request, version)
    max_bytes, max_wait_ms = request.max_bytes, request.max_wait_ms
    if replica_id < 0:
        max_bytes = min(max_bytes, node.config["fetch.max.bytes"])
        if context.charge is not None and context.charge.bytes_max is not None:
            max_bytes = min(max_bytes, context.charge.bytes_max)
    if (buggify := node.world.buggify) is not None:
        max_bytes = 1 if buggify(SHORT_FETCH) else max_bytes
        max_wait_ms = 0 if buggify(EMPTY_FETCH) else max_wait_ms
    return FetchParams(
        version,
        replica_id,
        broker_epoch,
        max_wait_ms,
        min(request.min_bytes, max_bytes),
        max_bytes,
        request.isolation_level == READ_COMMITTED,
        request.rack_id,
        context.listener,
    )


def control(
    node: QuorumServices, request: FetchRequest, context: RequestContext
) -> FetchResponse | Awaitable[FetchResponse | None]:
    """On a controller listener: the metadata log, which the quorum serves."""
    answer: FetchResponse | Awaitable[FetchResponse | None] = node.plane.handle(request, context.api_version)
    return answer
