"""Answers a Feed's questions with Moldau's own blocking client: one connection per broker, no threads.

Turns refusals into what the source tells apart: records that are lost, a cluster that cannot answer now, and the rest.
Read next: moldau/client/sync.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from moldau.client.client import ClientOptions, Refused
from moldau.client.lines import ConnectionOptions
from moldau.client.reading import READ_COMMITTED, READ_UNCOMMITTED, Fetched, FetchOptions
from moldau.client.sync import Cluster
from moldau.spark.feed import OffsetLost, Slice, Topic, Unreachable
from moldau.spark.frames import Aborted
from moldau.spark.options import Options
from moldau.terms import NO_UUID, Code, TopicPartition

_LOST = {
    Code.OFFSET_OUT_OF_RANGE: "the offset is no longer (or not yet) in the log",
    Code.UNKNOWN_TOPIC_ID: "the topic was deleted, or made anew under the same name",
    Code.INCONSISTENT_TOPIC_ID: "the topic was made anew under the same name",
    Code.UNKNOWN_TOPIC_OR_PARTITION: "the partition is gone",
}


def open_feed(options: Options) -> ClientFeed:
    """A feed over its own connections; nothing is asked before the first question."""
    kafka = options.numbers
    connection = ConnectionOptions(
        client_id=options.kafka.get("client.id", options.group_id_prefix),
        request_timeout_ms=kafka.get("request.timeout.ms", 30_000),
    )
    client = ClientOptions(
        api_timeout_ms=kafka.get("default.api.timeout.ms", 60_000),
        retry_backoff_ms=kafka.get("retry.backoff.ms", 100),
        retry_backoff_max_ms=kafka.get("retry.backoff.max.ms", 1000),
    )
    fetch = FetchOptions(
        max_wait_ms=kafka.get("fetch.max.wait.ms", 500),
        min_bytes=kafka.get("fetch.min.bytes", 1),
        isolation=READ_COMMITTED if options.read_committed else READ_UNCOMMITTED,
        rack=options.kafka.get("client.rack", ""),
    )
    return ClientFeed(Cluster(options.bootstrap_servers, connection=connection, options=client), fetch)


class ClientFeed:
    """A ``feed.Feed`` over a ``Cluster``."""

    def __init__(self, cluster: Cluster, options: FetchOptions) -> None:
        self._cluster, self._options = cluster, options

    def topics(self, names: Collection[str] | None) -> Mapping[str, Topic]:
        return {
            name: Topic(topic.topic_id, tuple(sorted(topic.partitions)), topic.internal)
            for name, topic in self._cluster.topics(names).items()
        }

    def offsets(self, asked: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        if not asked:
            return found
        for source, answer in self._cluster.offsets(asked, isolation=self._options.isolation).items():
            if answer.code is not Code.NONE:
                raise _trouble(answer.code, f"offsets of {source}")
            found[source] = answer.offset
        return found

    def committed(self, group_id: str, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        found = self._cluster.committed(group_id, partitions)
        return {source: each.offset for source, each in found.items() if each.offset >= 0}

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        for source, code in self._cluster.commit(group_id, offsets).items():
            if code is not Code.NONE:
                raise _trouble(code, f"commit of {source} to group {group_id}")

    def fetch(self, source: TopicPartition, topic_id: bytes, offset: int, max_bytes: int) -> Slice:
        got = self._cluster.fetch(source, offset, self._fetching(topic_id, max_bytes))
        return self._slice(got, source, offset)

    def slices(self, source: TopicPartition, topic_id: bytes, span: range, max_bytes: int) -> Iterator[Slice]:
        options = self._fetching(topic_id, max_bytes)
        for got in self._cluster.fetch_range(source, span.start, span.stop, options):
            yield self._slice(got, source, span.start)

    def close(self) -> None:
        self._cluster.close()

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

    def _slice(self, got: Fetched, source: TopicPartition, offset: int) -> Slice:
        if got.code is not Code.NONE:
            raise _trouble(got.code, f"fetch of {source} from offset {offset}")
        committed = self._options.isolation == READ_COMMITTED
        end = got.last_stable_offset if committed else got.high_watermark
        return Slice(got.records, got.log_start_offset, end, tuple(Aborted(*each) for each in got.aborted))


def _trouble(code: Code, what: str) -> Exception:
    if code in _LOST:
        return OffsetLost(f"{what}: {_LOST[code]} ({code.name})")
    if code.retriable:
        return Unreachable(f"{what}: {code.name}")
    return Refused(code, what)
