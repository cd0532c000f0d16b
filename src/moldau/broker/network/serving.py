"""What is known of one request's answer: its place in the line, how it is encoded, how much memory it takes.

Answers that may be long are encoded in slices; what fits into the first one is ready at once.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import cast

from moldau.broker.network.charging import Charge
from moldau.broker.network.freeing import let_go, long_arrays
from moldau.broker.network.memory import LongWork
from moldau.broker.network.receive_buffer import ReceiveBuffer
from moldau.broker.network.requests import CONTROLLER, ServedApi, Slices
from moldau.broker.network.traffic import ApiStats
from moldau.model import Code
from moldau.model.protocol import Protocol
from moldau.ports import Tasks
from moldau.wire.codec import Buffer, Malformed
from moldau.wire.frames import RequestHeader, read_request_in_slices, response_frame, response_frame_in_slices
from moldau.wire.messages.k00_produce import ProduceRequest, ProduceResponse
from moldau.wire.messages.k01_fetch import FetchResponse
from moldau.wire.messages.k18_api_versions import ApiVersionsResponse
from moldau.wire.schema import Message

SLICES_FROM_BYTES = 1 << 14
"""Shorter frames are decoded at once: a few thousand items of arrays at most."""
ITEMS_MAX = 1 << 18
"""The most items of arrays in one request: ten times the partitions of a large cluster's busiest broker."""
ITEMS_MAX_OF_CONTROLLERS = 1 << 20
"""The most items in a request between controller and brokers, which names every replica of a cluster."""
_OF_CONTROLLERS = frozenset({4, 5, 6})
PRODUCE, FETCH = 0, 1
_IN_MEMORY = frozenset({bytes, bytearray, memoryview})
FEW = 256
"""Partitions of an answer to Produce or Fetch that are encoded at once."""

Encoded = list[Buffer] | Generator[None, None, list[Buffer]]


class Slot:
    """The place of one answer in its connection's line. ``bytes`` of memory it takes while an earlier one is due;
    ``expected`` are kept free for it until it is there. ``works``: what is counted for it until then, and while it is
    encoded."""

    __slots__ = ("api_key", "began_ms", "bytes", "charge", "expected", "frame", "is_large", "stats", "works")

    def __init__(self, stats: ApiStats | None, began_ms: int | None, charge: Charge | None) -> None:
        self.frame: list[Buffer] | None = None
        self.stats = stats
        self.began_ms = began_ms
        self.charge = charge
        self.bytes = self.expected = 0
        self.api_key = -1
        self.is_large = False
        self.works: list[LongWork] = []


def items_max(api_key: int, kind: str) -> int:
    """How many items the arrays of one request may hold together."""
    return ITEMS_MAX_OF_CONTROLLERS if kind == CONTROLLER or api_key in _OF_CONTROLLERS else ITEMS_MAX


def decode_kept_in_slices(
    receive_buffer: ReceiveBuffer, frame: memoryview, start: int, header: RequestHeader, most: int
) -> Generator[None, None, Message]:
    """Decode the request that is all of ``frame`` from ``start`` on in slices, from bytes that stay where they are
    meanwhile and are given back then.
    """
    own = receive_buffer.take() if receive_buffer.is_own else None
    if own is None:
        frame = memoryview(bytes(frame[start:]))
        header = header._replace(body=header.body - start)
        receive_buffer.memory.hold(len(frame))
    try:
        return (yield from read_request_in_slices(frame, header, most))
    finally:
        if own is None:
            receive_buffer.memory.forget(len(frame))
        else:
            receive_buffer.memory.release(receive_buffer.owner, own, reuse=False)


def kept_whole(receive_buffer: ReceiveBuffer, request: Message, work: Slices) -> Slices:
    """``work`` on a request that was decoded where it came in: what it is made of stays as it is meanwhile.

    Only records are views of the receive buffer.
    """
    memory, copied = receive_buffer.memory, 0
    own = receive_buffer.take() if receive_buffer.is_own else None
    if own is None and isinstance(request, ProduceRequest):
        for topic in request.topic_data:
            for part in topic.partition_data:
                if part.records is not None:
                    part.records, part.records_at = memoryview(bytearray(part.records)), 0
                    copied += len(part.records)
    memory.hold(copied)
    try:
        return (yield from work)
    finally:
        memory.forget(copied)
        if own is not None:
            memory.release(receive_buffer.owner, own)


def freed(tasks: Tasks, request: Message, work: Slices) -> Slices:
    """``work`` on a request whose items are let go in turns when it is done."""
    held = long_arrays(request)
    del request
    try:
        return (yield from work)
    finally:  # also when its client is gone
        let_go(tasks, held)


def encoded(response: Message, header: RequestHeader, tasks: Tasks) -> Encoded:
    """The answer's frame; or what encodes it in slices, when it is long, and then lets go of its items in turns."""
    key, version, correlation_id = header.api_key, header.api_version, header.correlation_id
    if key <= FETCH and _is_short(key, response):
        return response_frame(response, version, correlation_id)
    work = response_frame_in_slices(response, version, correlation_id)
    try:
        next(work)
    except StopIteration as end:
        frame: list[Buffer] = end.value
        return frame
    return _encoded_on(work, long_arrays(response), tasks)


def _encoded_on(
    work: Generator[None, None, list[Buffer]], held: list[list[object]], tasks: Tasks
) -> Generator[None, None, list[Buffer]]:
    try:
        return (yield from work)
    finally:  # also when its client is gone
        let_go(tasks, held)


class Versions(Protocol):
    """A listener, as far as it tells what it answers."""

    @property
    def name(self) -> str: ...

    @property
    def answers(self) -> Mapping[int, ServedApi]: ...


def of_unsupported(listener: Versions, header: RequestHeader) -> list[Buffer]:
    """The answer to ApiVersions of a version that we lack (KIP-511); Malformed for any other request."""
    if header.api_key != 18:
        raise Malformed(f"api key {header.api_key} version {header.api_version} is not served on {listener.name}")
    answer = ApiVersionsResponse(error_code=Code.UNSUPPORTED_VERSION, api_keys=versions_shown(listener.answers))
    return response_frame(answer, 0, header.correlation_id)


def versions_shown(answers: Mapping[int, ServedApi]) -> list[ApiVersionsResponse.ApiVersion]:
    """What a listener answers, as ApiVersions tells it."""
    return [
        ApiVersionsResponse.ApiVersion(api_key=one.key, min_version=one.shown, max_version=one.high)
        for one in answers.values()
    ]


def _is_short(key: int, response: Message) -> bool:
    """Whether an answer to Produce or Fetch holds few partitions."""
    if key == PRODUCE:
        told = cast("ProduceResponse", response).responses
        if len(told) == 1:
            return len(told[0].partition_responses) <= FEW
        return len(told) <= FEW and sum(len(topic.partition_responses) for topic in told) <= FEW
    topics = cast("FetchResponse", response).responses
    if not topics or (len(topics) == 1 and len(topics[0].partitions) <= FEW):
        return True
    return len(topics) <= FEW and sum(len(topic.partitions) for topic in topics) <= FEW


def memory_of(frame: Sequence[Buffer]) -> int:
    """Bytes that are in memory: parts of files are not."""
    return sum([len(part) for part in frame if type(part) in _IN_MEMORY])
