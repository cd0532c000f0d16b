"""How large records are at some places of many partitions: one small Fetch per leader, of all its partitions.

Judged by the headers of the batches that come, so a batch that is cut short does as well. A judgement, not a count:
callers plan with it. Read next: reading.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from moldau.client.client import Client
from moldau.client.reading import fetch_version_bound
from moldau.model import NO_UUID, Code, TopicPartition
from moldau.wire import batch
from moldau.wire.codec import Buffer
from moldau.wire.messages.k01_fetch import FetchRequest, FetchResponse

_EACH_BYTES = 16 << 10
_MAX_BYTES = 8 << 20


async def bytes_per_offset(
    client: Client, asked: Mapping[TopicPartition, tuple[bytes, int]]
) -> dict[TopicPartition, float]:
    """For each (topic id, offset) about how many bytes an offset takes from there on; left out where nobody can say."""

    def build(partitions: list[TopicPartition]) -> FetchRequest:
        topics: dict[str, FetchRequest.FetchTopic] = {}
        for source in partitions:
            topic_id, offset = asked[source]
            known = topic_id if topic_id != NO_UUID else client.view.topic_id(source.topic)
            topic = topics.setdefault(source.topic, FetchRequest.FetchTopic(topic=source.topic, topic_id=known))
            topic.partitions.append(
                FetchRequest.FetchPartition(
                    partition=source.partition, fetch_offset=offset, partition_max_bytes=_EACH_BYTES
                )
            )
        return FetchRequest(
            replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=_MAX_BYTES, topics=list(topics.values())
        )

    found: dict[TopicPartition, float] = {}
    by_id = {topic_id: source.topic for source, (topic_id, _) in asked.items()}

    def read(response: FetchResponse) -> dict[TopicPartition, tuple[int, None]]:
        settled: dict[TopicPartition, tuple[int, None]] = {}
        for topic in response.responses:
            name = topic.topic or by_id.get(topic.topic_id) or client.view.names.get(topic.topic_id, "")
            for part in topic.partitions:
                source = TopicPartition(name, part.partition_index)
                settled[source] = Code.NONE, None  # what refuses now is not waited for: this is only a judgement
                size = _judged(part.records or b"", asked[source][1]) if source in asked else None
                if size is not None:
                    found[source] = size
        return settled or dict.fromkeys(asked, (Code.NONE, None))

    highest = None
    if any(
        topic_id == NO_UUID and client.view.topic_id(each.topic) == NO_UUID for each, (topic_id, _) in asked.items()
    ):
        highest = fetch_version_bound(build(list(asked)))
    await client.per_leader(asked, build, read, highest=highest, timeout_ms=client.options.retry_backoff_max_ms)
    return found


def _judged(records: Buffer, offset: int) -> float | None:
    """Bytes per offset over the batches of a fetched buffer, of which the last may be cut short."""
    at, size, first, last = 0, 0, offset, offset
    while at + batch.HEADER_SIZE <= len(records):
        header = batch.read_header(records, at)
        if header.length < batch.MIN_LENGTH:
            break
        first = min(first, header.base_offset)
        last, size, at = header.next_offset, size + header.size, at + header.size
    return size / (last - first) if last > first else None
