"""The blocking way in: a cluster client for scripts, the command line and Spark workers. No event loop, no threads.

Runs the very same client as everybody else (client.py, reading.py, groups.py, admin.py) over blocking sockets
(sockets.py). One thread uses one ``Cluster`` at a time; a worker process opens its own, none is pickled.
Refusals are values where a call is about many things, and ``Refused`` where it is about one.
Read next: reading.py for what a fetch gives.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Coroutine, Iterator, Mapping
from typing import TypeVar

from moldau.client import groups, reading, writing
from moldau.client.client import Client, ClientOptions, Refused, Unreachable
from moldau.client.groups import Committed
from moldau.client.lines import ConnectionOptions
from moldau.client.reading import FETCH, Fetched, FetchOptions, Offset
from moldau.client.sockets import SocketLines, drive
from moldau.client.view import Broker, Topic
from moldau.model import Code, TopicPartition
from moldau.model.value import replace
from moldau.wire.codec import Buffer

T = TypeVar("T")


class Cluster:
    """A cluster, asked and waited for. Use as a context manager, or ``close``."""

    def __init__(
        self,
        bootstrap: str,
        *,
        connection: ConnectionOptions | None = None,
        options: ClientOptions | None = None,
    ) -> None:
        self._lines = SocketLines(connection if connection is not None else ConnectionOptions())
        self.client = Client(self._lines, bootstrap, options)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self.client.close()

    def limit(self, whole_ms: int) -> bool:
        """Have no call, and no request over a connection that is made from now on, take longer; whether any could."""
        client, connection = self.client, self._lines.options
        client.options = replace(client.options, api_timeout_ms=min(client.options.api_timeout_ms, whole_ms))
        if connection.request_timeout_ms <= whole_ms:
            return False
        connecting_ms = min(connection.connect_timeout_ms, whole_ms)
        self._lines.options = replace(connection, request_timeout_ms=whole_ms, connect_timeout_ms=connecting_ms)
        return True

    def run(self, work: Coroutine[object, None, T]) -> T:
        """Any coroutine of this package that was made with ``self.client`` (admin calls, ...), run to its end."""
        return drive(work)

    # -- what there is

    def topics(self, names: Collection[str] | None = None) -> dict[str, Topic]:
        """The named topics that exist, or all, as the cluster knows them now. Refused when one may not be seen."""
        troubles = drive(self.client.know(names))
        for name, code in troubles.items():
            if code not in (Code.NONE, Code.UNKNOWN_TOPIC_OR_PARTITION, Code.LEADER_NOT_AVAILABLE):
                raise Refused(code, f"topic {name!r}")
        known = self.client.view.topics
        return {name: known[name] for name in (sorted(known) if names is None else names) if name in known}

    def brokers(self) -> dict[int, Broker]:
        """The live brokers, by node id."""
        drive(self.client.know([]))
        return dict(self.client.view.brokers)

    def cluster_id(self) -> str | None:
        """The cluster's id, once a broker has said it."""
        if self.client.view.cluster_id is None:
            drive(self.client.know([]))
        return self.client.view.cluster_id

    # -- reading

    def offsets(
        self, asked: Mapping[TopicPartition, int], *, isolation: int = reading.READ_UNCOMMITTED
    ) -> dict[TopicPartition, Offset]:
        """For each partition the offset at a timestamp (ms), or at LATEST (-1) or EARLIEST (-2)."""
        return drive(reading.list_offsets(self.client, asked, isolation=isolation))

    def fetch(self, source: TopicPartition, offset: int, options: FetchOptions = FETCH) -> Fetched:
        """Whole batches from ``offset`` on. Look at the code: retriable refusals were tried again already."""
        return drive(reading.fetch(self.client, source, offset, options))

    def fetch_range(
        self, source: TopicPartition, start: int, end: int, options: FetchOptions = FETCH
    ) -> Iterator[Fetched]:
        """All batches that hold offsets from ``start`` to before ``end``; the next is under way while one is used.

        Nothing else may be asked of this cluster's connection to the leader while iterating, or it waits behind.
        """
        return _walk(reading.fetch_range(self.client, source, start, end, options))

    # -- groups

    def committed(
        self, group_id: str, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, Committed]:
        """What a group committed, without partitions that have nothing. Refused when the group may not be read."""
        code, found = drive(groups.committed(self.client, group_id, partitions))
        if code is not Code.NONE:
            raise Refused(code, f"group {group_id!r}")
        return found

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, Code]:
        """Write a group's positions from outside; the group must have no members."""
        positions = {p: Committed(offset) for p, offset in offsets.items()}
        return drive(groups.commit(self.client, group_id, positions))

    # -- writing

    def produce(
        self, target: TopicPartition, records: Buffer, *, acks: int = -1, timeout_ms: int = 30_000
    ) -> writing.BatchOutcome:
        """Append one record batch (bytes of moldau.wire.batch.build); tried again while the refusal may pass."""
        return drive(writing.produce(self.client, target, records, acks=acks, timeout_ms=timeout_ms))

    def begin_produce(
        self, parts: Mapping[TopicPartition, Buffer], *, acks: int = -1, timeout_ms: int = 30_000
    ) -> list[writing.Sent]:
        """Send one batch for each partition, one request per leader, and come back without waiting for the answers.

        Nothing is tried again: what an answer refuses, or a lost connection left open, may be given to ``produce``.
        """
        return drive(writing.begin_produce(self.client, parts, acks=acks, timeout_ms=timeout_ms))

    def finish_produce(self, sent: writing.Sent) -> dict[TopicPartition, writing.BatchOutcome]:
        """What became of the batches of one request; waits for the answer."""
        return drive(sent.written())

    def ready(self, sent: Collection[writing.Sent]) -> list[writing.Sent]:
        """The sends whose response has come."""
        given = list(sent)
        answered = [index for index, each in enumerate(given) if each.answer is None]
        asked = [index for index, each in enumerate(given) if each.answer is not None]
        answered += [asked[i] for i in drive(self.client.lines.first([given[i].answer for i in asked], 0))]
        return [given[index] for index in sorted(answered)]

    def producer_id(self, transactional_id: str | None = None) -> tuple[int, int]:
        """A producer id and its epoch, for batches that must not be written twice. Refused when there is none."""
        return drive(writing.producer_id(self.client, transactional_id))


def _walk(steps: AsyncIterator[T]) -> Iterator[T]:
    """An asynchronous iterator of a client on blocking lines, as a plain one."""
    try:
        while True:
            try:
                yield drive(_next(steps))
            except StopAsyncIteration:
                return
    finally:
        drive(steps.aclose())  # type: ignore[attr-defined]


async def _next(steps: AsyncIterator[T]) -> T:
    return await anext(steps)


__all__ = ["Cluster", "Refused", "Unreachable"]
