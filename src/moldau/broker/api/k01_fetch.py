"""Fetch, 4-18: records for consumers and followers, at once or when there are enough (BR-3).

Answered at once when the client will not wait, asks for nothing, or there is an error, a diverging epoch, a better
replica to read from, or min_bytes of records; else parked until data, watermark or time, or until the consumer sends
something else on the same connection (decision 9). Incremental sessions from version 7, topic ids from 13. Records are
one read of the file per partition, handed to the socket as they are.
A follower (replica id >= 0) reads up to the log's end, and its position drives ISR and high watermark.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from moldau.broker.readings import Terms
from moldau.ports.rare import EMPTY_FETCH, SHORT_FETCH
from moldau.terms import Code
from moldau.wire.messages.k01_fetch import FetchRequest, FetchResponse

READ_COMMITTED = 1


def handle(node: Any, request: FetchRequest, context: Any) -> FetchResponse | Awaitable[FetchResponse | None]:
    """Read what is there, or wait for it."""
    version = context.api_version
    state = request.replica_state
    replica_id, broker_epoch = (state.replica_id, state.replica_epoch) if version >= 15 else (request.replica_id, -1)
    reader = node.replicas.sessions.open(request, version, follower=replica_id >= 0)
    if isinstance(reader, Code):
        return FetchResponse(error_code=reader)
    max_bytes, max_wait_ms = request.max_bytes, request.max_wait_ms
    if replica_id < 0:
        max_bytes = min(max_bytes, node.config["fetch.max.bytes"])
    if (rare := node.world.rare) is not None:
        max_bytes = 1 if rare(SHORT_FETCH) else max_bytes
        max_wait_ms = 0 if rare(EMPTY_FETCH) else max_wait_ms
    terms = Terms(
        version,
        replica_id,
        broker_epoch,
        max_wait_ms,
        request.min_bytes,
        max_bytes,
        request.isolation_level == READ_COMMITTED,
        request.rack_id,
        context.listener,
    )
    answer = reader.fetch(terms)
    if reader.waiting is not None and context.connection is not None:
        context.connection.waiting.add(reader.waiting, of_consumer=replica_id < 0)
    return answer  # type: ignore[no-any-return]


def control(node: Any, request: FetchRequest, context: Any) -> FetchResponse | Awaitable[FetchResponse | None]:
    """On a controller listener: the metadata log, which the quorum serves."""
    return node.plane.handle(request, context.api_version)  # type: ignore[no-any-return]
