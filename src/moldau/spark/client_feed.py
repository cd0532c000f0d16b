"""Answers a Feed's questions with Moldau's own blocking client: one connection per broker, no threads.

Turns refusals into what the source tells apart: records that are lost, a cluster that cannot answer now, and the rest.
Read next: moldau/client/sync.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

import numpy as np

from moldau.client.client import ClientOptions, Refused
from moldau.client.lines import ConnectionOptions
from moldau.client.reading import LATEST, READ_COMMITTED, READ_UNCOMMITTED, Fetched, FetchOptions, Offset, epoch_ends
from moldau.client.sampling import bytes_per_offset
from moldau.client.sync import Cluster
from moldau.model import NO_UUID, Code, TopicPartition
from moldau.model.value import replace
from moldau.spark.feed import Aborted, FeedUnreachable, KnownTopic, LogEnd, OffsetLost, PartitionOffset, Slice
from moldau.spark.options import Options

_SHOWING_MS = 5000
"""Positions that are only shown to a group hold up no query for longer."""

_LOST = {
    Code.OFFSET_OUT_OF_RANGE: "the offset is no longer (or not yet) in the log",
    Code.UNKNOWN_TOPIC_ID: "the topic was deleted, or made anew under the same name",
    Code.INCONSISTENT_TOPIC_ID: "the topic was made anew under the same name",
    Code.UNKNOWN_TOPIC_OR_PARTITION: "the partition is gone",
}


def _room(size: int) -> memoryview:
    """Memory that is about to be written: a bytearray would be filled with zeros first, megabytes in each fetch."""
    return np.empty(size, np.uint8).data


def open_feed(options: Options) -> ClientFeed:
    """A feed over its own connections; nothing is asked before the first question."""
    kafka = options.numbers
    connection = ConnectionOptions(
        client_id=options.kafka.get("client.id", options.group_id_prefix),
        request_timeout_ms=kafka.get("request.timeout.ms", 30_000),
        connect_timeout_ms=kafka.get("socket.connection.setup.timeout.ms", 10_000),
        room=_room,
    )
    client = ClientOptions(
        api_timeout_ms=kafka.get("default.api.timeout.ms", 60_000),
        retry_backoff_ms=kafka.get("retry.backoff.ms", 100),
        retry_backoff_max_ms=kafka.get("retry.backoff.max.ms", 1000),
        metadata_max_age_ms=kafka.get("metadata.max.age.ms", 300_000),
    )
    fetch = FetchOptions(
        max_wait_ms=kafka.get("fetch.max.wait.ms", 500),
        min_bytes=kafka.get("fetch.min.bytes", 1),
        isolation=READ_COMMITTED if options.read_committed else READ_UNCOMMITTED,
        rack=options.kafka.get("client.rack", ""),
    )
    hurried = replace(client, api_timeout_ms=min(client.api_timeout_ms, _SHOWING_MS))
    return ClientFeed(
        Cluster(options.bootstrap_servers, connection=connection, options=client), fetch,
        lambda: Cluster(options.bootstrap_servers, connection=connection, options=hurried),
    )  # fmt: skip


class ClientFeed:
    """A ``feed.Feed`` over a ``Cluster``; positions are shown to a group over another, which is not waited for long."""

    def __init__(self, cluster: Cluster, options: FetchOptions, open_hurried: Callable[[], Cluster]) -> None:
        self._cluster, self._options = cluster, options
        self._open_hurried = open_hurried
        self._hurried: Cluster | None = None

    def topics(self, names: Collection[str] | None) -> Mapping[str, KnownTopic]:
        return {
            name: KnownTopic(topic.topic_id, tuple(sorted(topic.partitions)), topic.internal)
            for name, topic in self._cluster.topics(names).items()
        }

    def offsets(self, asked: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        return {partition: answer.offset for partition, answer in self._listed(asked).items()}

    def ends(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, LogEnd]:
        found = self._listed(dict.fromkeys(partitions, LATEST))
        return {partition: LogEnd(answer.offset, answer.leader_epoch) for partition, answer in found.items()}

    def _listed(self, asked: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, Offset]:
        if not asked:
            return {}
        found = self._cluster.offsets(asked, isolation=self._options.isolation)
        for partition, answer in found.items():
            if answer.code is not Code.NONE and answer.code not in _LOST:
                raise _trouble(answer.code, f"offsets of {partition}")
        return {partition: answer for partition, answer in found.items() if answer.code is Code.NONE}

    def epoch_ends(self, asked: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        if not asked:
            return {}
        found = self._cluster.run(epoch_ends(self._cluster.client, asked))
        return {partition: each.end_offset for partition, each in found.items()
                if each.code is Code.NONE and each.end_offset >= 0}  # fmt: skip

    def sample(self, asked: Mapping[TopicPartition, PartitionOffset]) -> Mapping[TopicPartition, float]:
        places = {partition: (place.topic_id, place.offset) for partition, place in asked.items()}
        return self._cluster.run(bytes_per_offset(self._cluster.client, places)) if asked else {}

    def committed(self, group_id: str, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        found = self._cluster.committed(group_id, partitions)
        return {partition: each.offset for partition, each in found.items() if each.offset >= 0}

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        if self._hurried is None:
            self._hurried = self._open_hurried()
        for partition, code in self._hurried.commit(group_id, offsets).items():
            if code is not Code.NONE:
                raise _trouble(code, f"commit of {partition} to group {group_id}")

    def fetch(self, partition: TopicPartition, topic_id: bytes, offset: int, max_bytes: int) -> Slice:
        got = self._cluster.fetch(partition, offset, self._fetching(topic_id, max_bytes))
        return self._slice(got, partition, offset)

    def slices(self, partition: TopicPartition, topic_id: bytes, span: range, max_bytes: int) -> Iterator[Slice]:
        options = self._fetching(topic_id, max_bytes)
        for got in self._cluster.fetch_range(partition, span.start, span.stop, options):
            yield self._slice(got, partition, got.next_offset)

    def close(self) -> None:
        self._cluster.close()
        if self._hurried is not None:
            self._hurried.close()

    def _fetching(self, topic_id: bytes, max_bytes: int) -> FetchOptions:
        options = self._options
        return FetchOptions(
            max_bytes=max_bytes,
            max_wait_ms=options.max_wait_ms,
            min_bytes=options.min_bytes,
            isolation=options.isolation,
            rack=options.rack,
            topic_id=None if topic_id == NO_UUID else topic_id,
        )

    def _slice(self, got: Fetched, partition: TopicPartition, offset: int) -> Slice:
        if got.code is not Code.NONE:
            raise _trouble(got.code, f"fetch of {partition} from offset {offset}")
        committed = self._options.isolation == READ_COMMITTED
        end = got.last_stable_offset if committed else got.high_watermark
        return Slice(
            got.records,
            got.next_offset,
            got.log_start_offset,
            end,
            tuple(Aborted(*each) for each in got.aborted),
            got.batches,
        )


def _trouble(code: Code, what: str) -> Exception:
    if code in _LOST:
        return OffsetLost(f"{what}: {_LOST[code]} ({code.name})")
    if code.retriable:
        return FeedUnreachable(f"{what}: {code.name}")
    return Refused(code, what)
