"""Reads topics for the tools that consume: over breaks of connections and elections, alone or as a member of a group.

Read next: console_consumer.py, consumer_perf.py.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice

from moldau.admin.classic.client_keys import split_list
from moldau.admin.classic.client_topics import want_topics
from moldau.admin.classic.console_consumer_options import FOREVER, ConsoleOptions
from moldau.admin.classic.console_formatters import Seen
from moldau.admin.classic.console_properties import log
from moldau.admin.classic.java import JavaError, illegal_argument
from moldau.admin.classic.kafka_errors import PACKAGE
from moldau.admin.classic.session import ToolSession, no_consumer
from moldau.client.client import Client, Refused, Unreachable
from moldau.client.consumer import Chunk, Consumer, NoOffset
from moldau.client.lines import UnsupportedApi
from moldau.client.sync import Cluster
from moldau.model import Code, TopicPartition
from moldau.wire import batch
from moldau.wire.compression import BatchError

LOGGER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
ONCE_MS = 1_000
LOOK_AGAIN_MS = 30_000


def call_ms(timeout_ms: int) -> int | None:
    """How long a request may take where reading is given up after a while: none outlasts that by much."""
    return None if timeout_ms == FOREVER else max(timeout_ms, ONCE_MS)


def consumer_session(
    properties: Mapping[str, str], bootstrap: str | None = None, *, timeout_ms: int | None = None
) -> ToolSession:
    """A session for a consumer; JavaError when Kafka's would not start."""
    split_list("bootstrap.servers", bootstrap or "")
    try:
        return ToolSession(properties, bootstrap, client="Consumer", timeout_ms=timeout_ms)
    except JavaError as error:
        raise no_consumer(error) from None


def no_offset(error: NoOffset) -> JavaError:
    """What Kafka's consumer says when it does not know where to begin."""
    what = f"Undefined offset with no reset policy for partitions: [{', '.join(map(str, error.partitions))}]"
    return JavaError("org.apache.kafka.clients.consumer.NoOffsetForPartitionException", what)


def demand_group(properties: Mapping[str, str]) -> None:
    """JavaError for a group without a name, with which Kafka's consumer would not start."""
    if not properties.get("group.id", "a group").strip():
        why = "The configured group.id should not be an empty string or whitespace."
        raise no_consumer(JavaError(f"{PACKAGE}InvalidGroupIdException", why))


class Reader:
    """What is to be read, record by record, over breaks of connections and elections."""

    def __init__(self, cluster: Cluster, consumer: Consumer, options: ConsoleOptions) -> None:
        self.cluster = cluster
        self.client: Client = cluster.client
        self.consumer = consumer
        self.options = options
        self._pattern = _pattern(options)
        self._topics: tuple[str, ...] = () if options.topic is None else (options.topic,)
        self._ready = False
        self._look_at = 0.0
        self._left: dict[TopicPartition, int] = {}
        """Where reading goes on in partitions of the last fetch that were not read to its end: until a record is
        ``seen`` where their part of it begins, as a tool that has enough, or meets an error, may end before. What was
        fetched earlier was used, or nothing more were asked for; a partition that went meanwhile has its position from
        whoever has it then."""
        self._begins: dict[TopicPartition, int] = {}
        """Where the last fetch begins in each partition."""
        self._lasts: dict[TopicPartition, int] = {}
        """The last record of each partition in it, as far as it was looked through."""
        self._rest: Iterator[Seen] = iter(())

    def receive(self) -> Iterator[Seen] | None:
        """The next records; None when none came in time, or none will come any more."""
        began, again = time.monotonic(), False
        while True:
            joining = not self.consumer.assignment and not again
            left_ms = self._left_ms(began)
            join_ms = left_ms + self.options.timeout_ms if joining else left_ms
            try:
                chunks = self._poll(min(left_ms, ONCE_MS), None if self.options.timeout_ms == FOREVER else join_ms)
            except (Unreachable, OSError):
                chunks = []
                time.sleep(min(max(self._left_ms(began), 0), 100) / 1000)  # nobody tells that a broker is there again
            except NoOffset as error:
                log("ERROR", f"Error processing message, terminating consumer process: {no_offset(error)}", LOGGER)
                return None
            except (Refused, UnsupportedApi, BatchError) as error:
                log("ERROR", f"Error processing message, terminating consumer process: {error}", LOGGER)
                return None
            for chunk in chunks:
                if chunk.fetched.code is not Code.NONE:
                    what = f"{chunk.partition}: {chunk.fetched.code.name}"
                    log("ERROR", f"Error processing message, terminating consumer process: {what}", LOGGER)
                    return None
            if chunks:
                return self._records(chunks)
            if self._left_ms(began) <= 0 and joining:  # Kafka's polls again unless more time has passed, to the ms
                began, again = began + self.options.timeout_ms / 1000, True
            if self._left_ms(began) <= 0:
                log("ERROR", "Error processing message, terminating consumer process: TimeoutException", LOGGER)
                return None

    def some(self, wait_ms: int, most: int) -> list[Seen]:
        """The next records, at most so many; none when none came within the time."""
        found = list(islice(self._rest, most))
        if found:
            return found
        try:
            chunks = self._poll(wait_ms)
        except (Unreachable, OSError):
            time.sleep(wait_ms / 1000)  # nobody tells that a broker is there again
            return []
        self._rest = self._records([chunk for chunk in chunks if chunk.fetched.code is Code.NONE])
        return list(islice(self._rest, most))

    def seen(self, seen: Seen) -> None:
        """A record was used: what is committed at the end goes up to it, and no further. Behind the last that a fetch
        has of its partition reading goes on where the fetch ends, as behind a transaction's marker."""
        if self._lasts.get(seen.partition) == seen.record.offset:
            self._left.pop(seen.partition, None)
        else:
            self._left[seen.partition] = seen.record.offset + 1

    def stay(self) -> None:
        """Stay in the group while it takes long to use what was read."""
        self.cluster.run(self.consumer.stay())

    def close(self) -> None:
        """Commit, where that is automatic, what was used, and leave the group."""
        for partition, offset in self._left.items():
            with suppress(KeyError):
                self.consumer.seek(partition, offset)
        with suppress(OSError, Refused, UnsupportedApi):
            self.cluster.run(self.consumer.close())

    def _left_ms(self, began: float) -> float:
        if self.options.timeout_ms == FOREVER:
            return ONCE_MS
        return self.options.timeout_ms - (time.monotonic() - began) * 1000

    def _poll(self, wait_ms: float, join_ms: float | None = None) -> list[Chunk]:
        wait_ms = max(wait_ms, 0)
        if not self._ready:
            self._ready = self._begin(int(wait_ms) or 1)
            if not self._ready:
                time.sleep(min(wait_ms, 100) / 1000)  # no broker tells that it has made a partition
                return []
        self._look_again()
        patient_ms = None if join_ms is None else max(round(join_ms), 1)
        self._left.clear()
        self._lasts.clear()
        before = {one: at for one in self.consumer.assignment if (at := self.consumer.position(one)) >= 0}
        try:
            chunks: list[Chunk] = self.cluster.run(self.consumer.poll(wait_ms, join_ms=patient_ms))
            self._begins = {one.partition: one.offset for one in chunks if one.fetched.code is Code.NONE}
            self._left = dict(self._begins)
        except KeyboardInterrupt:
            self._left = before  # what was fetched and not handed on comes again
            raise
        return chunks

    def _begin(self, timeout_ms: int) -> bool:
        """Find out about topics, and take partitions or join; whether that could be done."""
        options = self.options
        if options.topic is None:
            self.cluster.run(self.client.know(None, timeout_ms=timeout_ms))
            self._topics = self._included()
        else:
            self.cluster.run(want_topics(self.client, self._topics, timeout_ms=timeout_ms))
        if options.partition is None:
            self.cluster.run(self.consumer.subscribe(self._topics))
            self._look_at = time.monotonic() + LOOK_AGAIN_MS / 1000
            return True
        source = TopicPartition(self._topics[0], options.partition)
        topic = self.client.view.topics.get(source.topic)
        if topic is None or source.partition not in topic.partitions:
            return False
        self.consumer.assign({source: options.offset})
        return True

    def _included(self) -> tuple[str, ...]:
        topics, matches = self.client.view.topics.values(), self._pattern.fullmatch
        return tuple(sorted(topic.name for topic in topics if not topic.internal and matches(topic.name)))

    def _look_again(self) -> None:
        """Notice topics and partitions that were made meanwhile."""
        idle = not self.consumer.assignment
        if self.options.partition is not None or (time.monotonic() < self._look_at and not idle):
            return
        self._look_at = time.monotonic() + LOOK_AGAIN_MS / 1000
        self.cluster.run(self.client.know(None if self.options.topic is None else self._topics))
        if self.options.topic is None and (found := self._included()) != self._topics:
            self._topics = found
            self.cluster.run(self.consumer.subscribe(found))

    def _records(self, chunks: list[Chunk]) -> Iterator[Seen]:
        for chunk in chunks:
            appended = [
                (header.last_offset, header.is_log_append_time)
                for _, header in batch.headers(chunk.fetched.records)
            ]  # fmt: skip
            at = 0
            records = chunk.records(self.consumer.options.isolation)
            record = next(records, None)
            if record is None:
                self._left.pop(chunk.partition, None)  # nothing in it is for us: reading goes on behind it
            while record is not None:
                while appended[at][0] < record.offset:
                    at += 1
                seen = Seen(chunk.partition, record, appended[at][1] if record.timestamp >= 0 else None)
                record = next(records, None)
                if record is None:
                    self._lasts[chunk.partition] = seen.record.offset
                yield seen


def _pattern(options: ConsoleOptions) -> re.Pattern[str]:
    """The names of topics that are included; JavaError where Kafka's consumer refuses what is to be read."""
    if options.topic is not None and not options.topic.strip():
        if options.partition is not None:
            raise illegal_argument("Topic partitions to assign to cannot have null or empty topic")
        raise illegal_argument("Topic collection to subscribe to cannot contain null or empty topic")
    if options.include == "":
        raise illegal_argument("Topic pattern to subscribe to cannot be empty")
    try:
        return re.compile(options.include or "")
    except re.error as error:
        raise JavaError("java.util.regex.PatternSyntaxException", str(error)) from None
