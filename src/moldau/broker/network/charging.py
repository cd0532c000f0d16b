"""What a request costs its client of its quotas, and for how long the client's connection is not read from (KIP-219).

Bytes of a produce request count when it comes, bytes of a fetch when it is answered, and the time in which the loop
works on any request counts when that is answered. The answer leaves at once and says for how long its client is
throttled. Not counted: what brokers and controllers ask of each other. The counts are ``broker/quotas``.
"""

from __future__ import annotations

import inspect
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar

from moldau.broker.network.requests import ZOOKEEPER
from moldau.broker.quotas.clients import ClientQuotas
from moldau.broker.quotas.nodes import is_node
from moldau.model.quota_config import FETCH, PRODUCE, REQUEST
from moldau.ports import Clock
from moldau.wire.frames import RequestHeader
from moldau.wire.messages.k00_produce import ProduceRequest
from moldau.wire.messages.k01_fetch import FetchRequest, FetchResponse
from moldau.wire.messages.k23_offset_for_leader_epoch import OffsetForLeaderEpochRequest
from moldau.wire.schema import Message

T = TypeVar("T")

OF_NODES = frozenset({4, 5, 6, 7, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82})
"""What only brokers and controllers ask."""
NS_TO_PERCENT = 100 / 1e9
"""A second of work in a second is 100 percent."""


class Charge:
    """The account of one request."""

    __slots__ = ("_began_ns", "_client_id", "_clock", "_quotas", "_spent_ns", "bytes_max", "throttle_ms")

    def __init__(self, quotas: ClientQuotas, clock: Clock, client_id: str | None) -> None:
        self._quotas = quotas
        self._clock = clock
        self._client_id = client_id
        self._spent_ns = 0
        self._began_ns = clock.monotonic_ns()
        self.throttle_ms = 0
        """For how long the client is throttled for what it has done before it is answered."""
        self.bytes_max: int | None = None
        """The most bytes that its fetch may bring."""

    def handled(self) -> None:
        """The handler has returned."""
        self._spent_ns += self._clock.monotonic_ns() - self._began_ns

    def timed(self, result: Any) -> Any:  # Any: whatever handlers return
        """What a handler returned, wrapped so that the loop's time that the rest of it takes is counted too."""
        if isinstance(result, Generator):
            return self._timed_slices(result)
        return self._timed_coroutine(result) if inspect.iscoroutine(result) else result

    def complete(self, response: Message | None) -> int:
        """The response is known: it is told for how long its client is throttled, and that is returned."""
        wait_ms = max(self.throttle_ms, getattr(response, "throttle_time_ms", 0))
        if isinstance(response, FetchResponse) and (size := _size(response)):
            wait_ms = max(wait_ms, self._quotas.spend(FETCH, self._client_id, size))
        percent = self._spent_ns * NS_TO_PERCENT
        wait_ms = max(wait_ms, self._quotas.spend(REQUEST, self._client_id, percent))
        if wait_ms and response is not None and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = min(wait_ms, 0x7FFFFFFF)
        return wait_ms

    def _timed_slices(self, work: Generator[None, None, T]) -> Generator[None, None, T]:
        while True:
            began_ns = self._clock.monotonic_ns()
            try:
                next(work)
            except StopIteration as end:
                found: T = end.value
                return found
            finally:
                self._spent_ns += self._clock.monotonic_ns() - began_ns
            yield

    async def _timed_coroutine(self, work: Coroutine[object, object, T]) -> T:
        return await self._timed_steps(work)

    @coroutine
    def _timed_steps(self, work: Coroutine[object, object, T]) -> Generator[object, object, T]:
        sent: object = None
        thrown: BaseException | None = None
        while True:
            began_ns = self._clock.monotonic_ns()
            try:
                waited_for = work.send(sent) if thrown is None else work.throw(thrown)
            except StopIteration as end:
                found: T = end.value
                return found
            finally:
                self._spent_ns += self._clock.monotonic_ns() - began_ns
            sent, thrown = None, None
            try:
                sent = yield waited_for
            except BaseException as error:
                thrown = error


def charge(
    quotas: ClientQuotas, clock: Clock, header: RequestHeader, request: Message, *, size: int, listener_kind: str
) -> Charge | None:
    """The account of a request of ``size`` bytes; None for what costs nothing."""
    if (
        header.api_key in OF_NODES
        or _of_follower(request)
        or (listener_kind == ZOOKEEPER and is_node(header.client_id))
    ):
        return None
    account = Charge(quotas, clock, header.client_id)
    if isinstance(request, ProduceRequest):
        account.throttle_ms = quotas.spend(PRODUCE, header.client_id, size)
    elif isinstance(request, FetchRequest):
        account.throttle_ms = quotas.throttle_ms(FETCH, header.client_id)
        account.bytes_max = quotas.most_at_once(FETCH, header.client_id)
    return account


def _of_follower(request: Message) -> bool:
    if isinstance(request, FetchRequest):
        return request.replica_id >= 0 or request.replica_state.replica_id >= 0
    return isinstance(request, OffsetForLeaderEpochRequest) and request.replica_id >= 0


def _size(response: FetchResponse) -> int:
    """Bytes of records."""
    return sum(
        len(part.records) for topic in response.responses for part in topic.partitions if part.records is not None
    )
