"""Rows of a task into topics: which partition each goes to, batches, producer ids, and what a refusal means.

A worker process keeps its connections, metadata and producer ids from task to task (``ProducerPool``), as Spark's
connector keeps its producers. One batch of a partition is under way at a time, so order and sequence numbers survive
any retry; batches of other partitions are under way beside it, and the next ones are encoded meanwhile. After any
failure the producer id is given up. Read next: encode.py (Arrow to bytes), client/writing.py (retries).
"""

from __future__ import annotations

import itertools
import os
import random
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from moldau.model import Code, TopicPartition
from moldau.model.protocol import Protocol
from moldau.spark import encode
from moldau.spark.frames import Ints
from moldau.spark.sink_options import SinkOptions
from moldau.wire.batch import HEADER_SIZE, sealed

if TYPE_CHECKING:
    from moldau.client.view import Topic
    from moldau.client.writing import BatchOutcome, Sent

MARK = "moldau-batch"
"""The header that tells a stream's records apart: query id / batch / task / row."""

NEW_TOPIC_S = 3.0
"""Brokers are told of a topic after who made it: one that is unknown is asked for again for so long."""
_CHUNK_BYTES = 8 << 20  # rows are gathered up to this size, so that batches fill up when Spark hands over few at a time
_WINDOW = 16  # partitions with a batch under way
_FORGOTTEN = (Code.OUT_OF_ORDER_SEQUENCE_NUMBER, Code.UNKNOWN_PRODUCER_ID, Code.INVALID_PRODUCER_EPOCH)
_DONE = (Code.NONE, Code.DUPLICATE_SEQUENCE_NUMBER)
_ADVICE = {
    Code.MESSAGE_TOO_LARGE: "raise max.message.bytes of the topic, or lower kafka.batch.size",
    Code.RECORD_LIST_TOO_LARGE: "lower kafka.batch.size",
    Code.NOT_ENOUGH_REPLICAS: "fewer replicas are in sync than min.insync.replicas asks for; bring brokers back",
    Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "fewer replicas are in sync than min.insync.replicas asks for",
    Code.TOPIC_AUTHORIZATION_FAILED: "the principal may not write to the topic; add an ACL",
    Code.NETWORK_EXCEPTION: "the leader was lost; the batch may be in the log, and the task writes it again",
    Code.REQUEST_TIMED_OUT: "the leader did not answer in time; the batch may be in the log",
    Code.LEADER_NOT_AVAILABLE: "the partition has no leader that can be reached; look at its replicas",
    Code.INVALID_RECORD: "the topic is compacted and takes no record without a key",
}


class SinkError(RuntimeError):
    """A record that cannot be written; the message names topic and partition, what the broker said, and what to do."""


class Out(Protocol):
    """What the sink asks of a cluster; ``moldau.client.sync.Cluster`` has it."""

    def topics(self, names: Sequence[str]) -> Mapping[str, Topic]: ...

    def producer_id(self) -> tuple[int, int]: ...

    def begin_produce(self, parts: Mapping[TopicPartition, bytes], *, acks: int, timeout_ms: int) -> list[Sent]: ...

    def finish_produce(self, sent: Sent) -> Mapping[TopicPartition, BatchOutcome]: ...

    def ready(self, sent: Sequence[Sent]) -> list[Sent]: ...

    def produce(self, target: TopicPartition, records: bytes, *, acks: int, timeout_ms: int) -> BatchOutcome: ...

    def close(self) -> None: ...


OpenOut = Callable[[SinkOptions], Out]


def open_out(options: SinkOptions) -> Out:
    """A blocking client with the patience and the name that the options ask for."""
    from moldau.client.client import ClientOptions
    from moldau.client.lines import ConnectionOptions
    from moldau.client.sync import Cluster

    retries = options.number("retries") > 0
    connection = ConnectionOptions(
        client_id=options.kafka.get("client.id", "spark-moldau-sink"),
        request_timeout_ms=options.number("request.timeout.ms"),
        connect_timeout_ms=options.number("socket.connection.setup.timeout.ms"),
    )
    patience = ClientOptions(
        api_timeout_ms=options.number("delivery.timeout.ms") if retries else 0,
        retry_backoff_ms=options.number("retry.backoff.ms"),
        retry_backoff_max_ms=max(options.number("retry.backoff.max.ms"), options.number("retry.backoff.ms")),
        metadata_max_age_ms=options.number("metadata.max.age.ms"),
    )
    return Cluster(options.kafka["bootstrap.servers"], connection=connection, options=patience)


class Lane:
    """One partition: where its sequence numbers stand, and what waits to be sent, oldest first."""

    __slots__ = ("busy", "identity", "next_sequence", "target", "waiting")

    def __init__(self, target: TopicPartition) -> None:
        self.target = target
        self.identity: tuple[int, int] | None = None
        self.next_sequence = 0
        self.waiting: deque[EncodedRecords] = deque()
        self.busy: EncodedRecords | None = None


class EncodedRecords(NamedTuple):
    """Encoded records, and when the first and the newest of them were made (ms since the epoch)."""

    payload: bytes | memoryview
    records: int
    timestamp_ms: int
    newest_ms: int


class TaskProducer:
    """Connections, metadata and sequence numbers that outlive a task; one task uses it at a time."""

    def __init__(self, options: SinkOptions, out: Out) -> None:
        self.options, self.out = options, out
        self.used_at = time.monotonic()
        self._identity: tuple[int, int] | None = None
        self._topics: dict[str, tuple[float, bytes, int]] = {}
        self._lanes: dict[TopicPartition, Lane] = {}
        self._under_way: dict[int, tuple[Sent, dict[TopicPartition, bytes]]] = {}

    def partitions(self, topic: str, *, fresh: bool = False) -> int:
        """How many partitions the topic has; asked again when ``metadata.max.age.ms`` has gone by, or ``fresh``."""
        now = time.monotonic()
        at, id, size = self._topics.get(topic, (-1.0, b"", 0))
        if fresh or at < 0 or now - at > self.options.number("metadata.max.age.ms") / 1000:
            found = self.out.topics([topic]).get(topic)
            while found is None or not found.partitions:
                if time.monotonic() - now > NEW_TOPIC_S:
                    raise SinkError(f"topic {topic} is not in the cluster: create it first, the sink does not")
                pause_ms = max(self.options.number("retry.backoff.ms"), 10)
                time.sleep(pause_ms / 1000)  # nobody tells that brokers know it
                found = self.out.topics([topic]).get(topic)
            if id and found.topic_id != id:  # another topic of the same name: its logs know no sequence of ours
                self._lanes = {target: lane for target, lane in self._lanes.items() if target.topic != topic}
            size = len(found.partitions)
            self._topics[topic] = (now, found.topic_id, size)
        return size

    def add(self, target: TopicPartition, batch: EncodedRecords) -> None:
        """Queue a batch and send what can be sent; waits when too much is under way."""
        lane = self._lanes.get(target)
        if lane is None:
            lane = self._lanes[target] = Lane(target)
        lane.waiting.append(batch)

    def pump(self) -> None:
        """Send a batch of every partition that has none under way; take the answers that are there."""
        for sent in self.out.ready([each for each, _ in self._under_way.values()]):
            self._finish(sent)
        ready = [lane for lane in self._lanes.values() if lane.waiting and lane.busy is None]
        room = _WINDOW - sum(len(parts) for _, parts in self._under_way.values())
        limit = max(self.options.number("max.request.size"), self.options.number("batch.size"))
        while ready and room > 0:
            parts: dict[TopicPartition, bytes] = {}
            size = 0
            while ready and room > 0 and (not parts or size + len(ready[-1].waiting[0].payload) <= limit):
                lane = ready.pop()
                data = self._seal(lane)
                parts[lane.target] = data
                size, room = size + len(data), room - 1
            self._send(parts)

    def flush(self) -> None:
        """Send everything and wait for every acknowledgement."""
        while True:
            self.pump()
            if not self._under_way:
                return
            self._finish(next(iter(self._under_way.values()))[0])

    def wait_for_one(self) -> None:
        """Wait for the oldest request's answer, if any is under way."""
        self.pump()
        if self._under_way:
            self._finish(next(iter(self._under_way.values()))[0])

    def _send(self, parts: dict[TopicPartition, bytes]) -> None:
        timeout_ms = self.options.number("request.timeout.ms")
        for sent in self.out.begin_produce(parts, acks=self.options.acks, timeout_ms=timeout_ms):
            self._under_way[id(sent)] = (sent, {target: parts[target] for target in sent.targets})

    def _seal(self, lane: Lane) -> bytes:
        batch = lane.busy = lane.waiting.popleft()
        return self._sealed(lane, batch)

    def _sealed(self, lane: Lane, batch: EncodedRecords) -> bytes:
        producer_id = producer_epoch = sequence = -1
        if self.options.idempotent:
            if lane.identity is None:
                if self._identity is None:
                    self._identity = self.out.producer_id()
                lane.identity = self._identity
            (producer_id, producer_epoch), sequence = lane.identity, lane.next_sequence
        times = (batch.timestamp_ms, batch.newest_ms)
        return sealed(
            batch.payload, batch.records, times, codec=self.options.codec,
            producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=sequence,
        )  # fmt: skip

    def _finish(self, sent: Sent) -> None:
        _, parts = self._under_way.pop(id(sent))
        for target, written in self.out.finish_produce(sent).items():
            lane = self._lanes[target]
            assert lane.busy is not None, "only what was sent is answered"
            if written.code not in _DONE:
                written = self._again(lane, parts[target], written)
            if written.code not in _DONE:
                advice = _ADVICE.get(written.code, "look at the log of the partition's leader")
                said = f" ({written.message})" if written.message else ""
                raise SinkError(f"{target}: {written.code.name}{said}; {advice}")
            lane.next_sequence = (lane.next_sequence + lane.busy.records) & 0x7FFFFFFF
            lane.busy = None

    def _again(self, lane: Lane, data: bytes, written: BatchOutcome) -> BatchOutcome:
        """The slow way for one batch: with retries and fresh metadata, or under a new producer id."""
        timeout_ms = self.options.number("request.timeout.ms")
        doubtful = written.code in (Code.NETWORK_EXCEPTION, Code.REQUEST_TIMED_OUT)
        if written.code.retriable and (self.options.idempotent or not doubtful) and self.options.number("retries"):
            written = self.out.produce(lane.target, data, acks=self.options.acks, timeout_ms=timeout_ms)
            doubtful = True
        if written.code in _FORGOTTEN and not doubtful and lane.busy is not None:
            # The broker took nothing and knows our sequence no more: its records expired, or another log leads.
            self._identity = self.out.producer_id()
            lane.identity, lane.next_sequence = self._identity, 0
            data = self._sealed(lane, lane.busy)
            written = self.out.produce(lane.target, data, acks=self.options.acks, timeout_ms=timeout_ms)
        return written

    def close(self) -> None:
        self.out.close()


class ProducerPool:
    """The idle producers of this process, by their settings. A producer whose task failed is not given back."""

    def __init__(self, most: int = 4) -> None:
        self._idle: dict[tuple[object, ...], TaskProducer] = {}
        self._process = os.getpid()
        self._most = most

    def borrow(self, options: SinkOptions, open_out: OpenOut) -> TaskProducer:
        """A producer with these settings: one that was used before, or a new one."""
        if self._process != os.getpid():  # a fork: its sockets are the parent's
            self._idle, self._process = {}, os.getpid()
        now = time.monotonic()
        for key, idle in list(self._idle.items()):
            if now - idle.used_at > idle.options.number("connections.max.idle.ms") / 1000:
                del self._idle[key]
                idle.close()
        found = self._idle.pop(self._key(options), None)
        if found is None:
            return TaskProducer(options, open_out(options))
        found.options = options
        return found

    def give_back(self, producer: TaskProducer) -> None:
        """Keep it for the next task; the oldest goes when there are too many."""
        producer.used_at = time.monotonic()
        self._idle[self._key(producer.options)] = producer
        while len(self._idle) > self._most:
            self._idle.pop(next(iter(self._idle))).close()

    def close(self) -> None:
        """End all idle producers."""
        while self._idle:
            self._idle.popitem()[1].close()

    @staticmethod
    def _key(options: SinkOptions) -> tuple[object, ...]:
        return tuple(sorted(options.kafka.items()))


POOL = ProducerPool()


class Task:
    """One task's rows: gathered, given partitions, encoded, and handed to a producer."""

    def __init__(self, producer: TaskProducer, mark: str) -> None:
        self.options, self.producer, self._mark = producer.options, producer, mark
        self.count = 0
        self._sticky: dict[str, int] = {}
        limit = self.options.number("max.request.size")
        self._batch_bytes = max(1, min(self.options.number("batch.size"), limit) - HEADER_SIZE)

    def write(self, rows: Iterator[pa.RecordBatch]) -> None:
        """All rows, until every one is acknowledged."""
        names = {"topic", "key", "value", "partition", "headers"}
        names |= {"timestamp"} if self.options.keep_timestamp else set()
        chunk: list[pa.RecordBatch] = []
        size = 0
        for each in rows:
            used = each.select([index for index, name in enumerate(each.schema.names) if name.lower() in names])
            chunk.append(used)
            size += used.nbytes
            if size >= _CHUNK_BYTES:
                self._add(chunk)
                chunk, size = [], 0
        if chunk:
            self._add(chunk)
        self.producer.flush()

    def _add(self, chunk: list[pa.RecordBatch]) -> None:
        table = pa.Table.from_batches(chunk)
        table = table.rename_columns([name.lower() for name in table.column_names]).combine_chunks()
        if not table.num_rows:
            return
        columns = {name: table.column(name).chunk(0) for name in table.column_names}
        for topic, rows in self._by_topic(columns, table.num_rows):
            part = columns if rows is None else {name: column.take(rows) for name, column in columns.items()}
            numbers = np.arange(table.num_rows) if rows is None else rows.to_numpy(zero_copy_only=False)
            self._add_topic(topic, part, numbers + self.count)
        self.count += table.num_rows

    def _by_topic(self, columns: Mapping[str, pa.Array], rows: int) -> Iterator[tuple[str, pa.Array | None]]:
        """Each topic with its rows (None: all)."""
        if self.options.topic is not None:
            yield self.options.topic, None
            return
        topics = columns["topic"]
        if topics.null_count:
            raise SinkError("a row has no topic: set the option topic, or give every row one")
        named = pc.dictionary_encode(topics)
        for number, topic in enumerate(named.dictionary.to_pylist()):
            if len(named.dictionary) == 1:
                yield topic, None
            else:
                yield topic, pc.indices_nonzero(pc.equal(named.indices, number)).cast(pa.int64())

    def _add_topic(self, topic: str, columns: Mapping[str, pa.Array], numbers: Ints) -> None:
        value = encode.as_bytes(columns["value"])
        key = encode.as_bytes(columns["key"]) if "key" in columns else None
        sizes = np.maximum(encode.lengths(value), 0) + 32
        if key is not None:
            sizes = sizes + np.maximum(encode.lengths(key), 0)
        places = self._places(topic, columns.get("partition"), key, sizes)
        order = np.argsort(places, kind="stable")
        headers = columns.get("headers")
        times = self._times(columns.get("timestamp"), len(value))
        if len(order) > 1 and (np.diff(order) != 1).any():
            take = pa.array(order)
            value, places, sizes, numbers = value.take(take), places[order], sizes[order], numbers[order]
            key = None if key is None else key.take(take)
            headers = None if headers is None else headers.take(take)
            times = times[order]
        try:
            marks = self._marks(key, numbers)
            header = encode.encode_headers(headers, marks, MARK, len(value))
        except ValueError as error:
            raise SinkError(f"{topic}: {error}") from None
        if header is not None:
            sizes = sizes + encode.lengths(header)
        cuts = _cuts(places, sizes, self._batch_bytes)
        deltas = np.arange(len(value)) - np.repeat(cuts[:-1], np.diff(cuts))
        since = times - np.repeat(times[cuts[:-1]], np.diff(cuts)) if self.options.keep_timestamp else None
        encoded = encode.encode(key, value, header, deltas, since)
        newest = np.maximum.reduceat(times, cuts[:-1]).tolist()
        for at, (first, end) in enumerate(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)):
            target = TopicPartition(topic, int(places[first]))
            batch = EncodedRecords(encoded.payload(first, end), end - first, int(times[first]), newest[at])
            if len(batch.payload) + HEADER_SIZE > self.options.number("max.request.size"):
                raise SinkError(
                    f"{target}: a record of {len(batch.payload)} bytes is above kafka.max.request.size "
                    f"({self.options.number('max.request.size')}); raise it, and max.message.bytes of the topic"
                )
            self.producer.add(target, batch)
            self.producer.pump()
        while any(len(lane.waiting) > 1 for lane in self.producer._lanes.values()):
            self.producer.wait_for_one()

    def _times(self, column: pa.Array | None, rows: int) -> Ints:
        """When each record was made, in ms: what the column says, else now."""
        now = np.full(rows, time.time_ns() // 1_000_000)
        if column is None:
            return now
        given = column.cast(pa.int64())  # microseconds
        known = pc.is_valid(given).to_numpy(zero_copy_only=False)
        return np.where(known, pc.fill_null(given, 0).to_numpy(zero_copy_only=False) // 1000, now)

    def _marks(self, key: pa.Array | None, numbers: Ints) -> pa.Array | None:
        if not self._mark:
            return None
        if self.options.mark_by_key:
            if key is None or key.null_count:
                raise ValueError("a row has no key, and markBy=key tells rows apart by it")
            told = key
        else:
            told = pa.array(numbers).cast(pa.string()).cast(pa.large_binary())
        empty = pa.scalar(b"", pa.large_binary())
        return pc.binary_join_element_wise(pa.scalar(self._mark.encode(), pa.large_binary()), told, empty)

    def _places(self, topic: str, asked: pa.Array | None, key: pa.Array | None, sizes: Ints) -> Ints:
        """The partition of each row: the one it names, that of its key, or the one whose turn it is."""
        count = self.producer.partitions(topic)
        rows = len(sizes)
        places = np.full(rows, -1, np.int64)
        if asked is not None and asked.null_count < rows:
            given = pc.fill_null(asked, -1).to_numpy(zero_copy_only=False).astype(np.int64)
            named = pc.is_valid(asked).to_numpy(zero_copy_only=False)
            if (given[named] >= count).any():
                count = self.producer.partitions(topic, fresh=True)
            wrong = named & ((given < 0) | (given >= count))
            if wrong.any():
                raise SinkError(f"a row names partition {given[wrong][0]} of {topic}, which has {count}")
            places[named] = given[named]
        use_keys = key is not None and not self.options.ignore_keys and not self.options.round_robin
        if use_keys and key is not None and key.null_count < rows:
            keyed = pc.is_valid(key).to_numpy(zero_copy_only=False) & (places < 0)
            hashed = (encode.murmur2(key) & np.uint32(0x7FFFFFFF)).astype(np.int64) % count
            places[keyed] = hashed[keyed]
        free = places < 0
        if free.any():
            places[free] = self._turns(topic, sizes[free], count)
        return places

    def _turns(self, topic: str, sizes: Ints, count: int) -> Ints:
        """Partitions for rows without key: one for as long as a batch takes, beginning anywhere (KIP-480)."""
        began = self._sticky.setdefault(topic, random.randrange(count) * self._batch_bytes)
        if self.options.round_robin:
            self._sticky[topic] = began + len(sizes)
            return (began + np.arange(len(sizes))) % count
        ends = began + np.cumsum(sizes)
        self._sticky[topic] = int(ends[-1])
        return (ends - sizes) // self._batch_bytes % count


def _cuts(places: Ints, sizes: Ints, most: int) -> Ints:
    """Where batches begin, and the end of the last: a new partition, or no room in the batch for one more."""
    ends = np.cumsum(sizes)
    lanes = np.flatnonzero(np.diff(places)) + 1
    bounds = [0, *lanes.tolist(), len(places)]
    found = [0]
    for first, end in itertools.pairwise(bounds):
        at = first
        while at < end:
            before = ends[at - 1] if at else 0
            at = max(at + 1, min(end, int(np.searchsorted(ends, before + most, "right"))))
            found.append(at)
    return np.array(found)


def write_task(
    options: SinkOptions,
    rows: Iterator[pa.RecordBatch],
    mark: str,
    *,
    open_out: OpenOut = open_out,
    pool: ProducerPool = POOL,
) -> int:
    """Write one task's rows and wait for every acknowledgement; how many. ``mark`` begins the header, "" for none."""
    producer = pool.borrow(options, open_out)
    try:
        task = Task(producer, mark)
        task.write(rows)
    except BaseException:
        producer.close()  # what is under way is in doubt, and its sequence numbers with it
        raise
    pool.give_back(producer)
    return task.count
