"""The producing end: messages at an even pace through librdkafka, idempotent, acks=all, and a record of every ack.

The pace is by the clock, not by the answers: while a partition has no leader its messages queue up, as in life.
"""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from moldau.admin.demo.data import Flight

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka import Message as Delivered

_TICK_S = 0.02
_FLUSH_S = 90.0
_BUSY_SHARE = 0.01


class Acks:
    """What was acknowledged (``count``: each message once), when, and how long nothing was. Times are seconds."""

    def __init__(self, count: int) -> None:
        self.seen = bytearray(count)
        self.by_second: Counter[int] = Counter()
        self.by_partition: Counter[int] = Counter()
        self.errors: Counter[str] = Counter()
        self.count = 0
        self.bytes = 0
        self.first: float | None = None
        self.last = 0.0
        self.gap: tuple[float, float] = 0.0, 0.0
        self.gaps: dict[int, tuple[float, float]] = {}
        self._last_of: dict[int, float] = {}

    def take(self, id: int, partition: int, size: int) -> None:
        """An acknowledgement that arrives now."""
        now = time.time()
        self.count += not self.seen[id]
        self.seen[id] = 1
        self.bytes += size
        self.by_second[int(now)] += 1
        self.by_partition[partition] += 1
        if self.first is None:
            self.first = now
        elif now - self.last > self.gap[0]:
            self.gap = now - self.last, self.last
        self.last = now
        before = self._last_of.get(partition, now)
        if now - before > self.gaps.get(partition, (0.0, 0.0))[0]:
            self.gaps[partition] = now - before, before
        self._last_of[partition] = now

    def worst_partition(self) -> tuple[int, float] | None:
        """The partition with the longest gap (seconds) among those with steady traffic."""
        total = sum(self.by_partition.values())
        busy = [each for each, count in self.by_partition.items() if count > total * _BUSY_SHARE and each in self.gaps]
        return max(((each, self.gaps[each][0]) for each in busy), key=lambda found: found[1], default=None)


def produce(
    messages: Sequence[Flight],
    topic: str,
    bootstrap_servers: str,
    seconds: float,
    each_tick: Callable[[int, Acks], None],
) -> Acks:
    """Send all messages over ``seconds`` and wait for their acks; ``each_tick`` is told how many have been sent."""
    from confluent_kafka import Producer

    acks = Acks(len(messages))
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 20,
            "compression.type": "lz4",
            "partitioner": "murmur2_random",
            "queue.buffering.max.messages": 1_000_000,
            "retry.backoff.ms": 50,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 500,
            "topic.metadata.refresh.fast.interval.ms": 100,
            "log_level": 0,
        }
    )
    began, sent = time.monotonic(), 0
    while sent < len(messages):
        due = min(len(messages), int((time.monotonic() - began) / seconds * len(messages)) + 1)
        for message in messages[sent:due]:
            told = functools.partial(_told, acks, message.id, len(message.value))
            producer.produce(topic, message.value, message.key, on_delivery=told)
            producer.poll(0)
        sent = due
        each_tick(sent, acks)
        producer.poll(_TICK_S)
    deadline = time.monotonic() + _FLUSH_S
    while len(producer) and time.monotonic() < deadline:
        producer.poll(_TICK_S)
        each_tick(sent, acks)
    return acks


def _told(acks: Acks, id: int, size: int, error: KafkaError | None, message: Delivered) -> None:
    if error is None:
        partition = message.partition()
        acks.take(id, partition if partition is not None else -1, size)
    else:
        acks.errors[error.str()] += 1
