"""Sends records one by one, as Kafka's producer does, and tells of each what became of it.

For the tools that measure or verify a cluster: records gather in batches, and several batches are under way at once.
The console producer, which waits for one thing at a time, does without (0032). Read next: producer_perf.py.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping

from moldau.admin.classic.client_topics import await_topic
from moldau.admin.classic.console_properties import log
from moldau.admin.classic.java import CONFIG_ERROR, JavaError
from moldau.admin.classic.kafka_errors import PACKAGE, kafka_error
from moldau.admin.classic.producer_config import (
    BATCH_BYTES,
    BUFFER_BYTES,
    KAFKA_ERROR,
    LINGER_MS,
    NO_PRODUCER,
    REQUEST_BYTES,
    acks_of,
    codec_of,
    demand_consistent,
    demand_size,
    number_of,
)
from moldau.admin.classic.session import ToolSession, empty_servers
from moldau.client.client import Client, ClientOptions
from moldau.client.producer import Delivery, Producer, ProducerOptions
from moldau.client.world_lines import WorldLines
from moldau.client.writing import BatchOutcome
from moldau.model import Code
from moldau.model.named import NamedTuple
from moldau.runtime.world import new_loop, real_world

USED = frozenset({
    "acks", "batch.size", "bootstrap.servers", "buffer.memory", "client.id", "compression.type",
    "default.api.timeout.ms", "delivery.timeout.ms", "enable.idempotence", "key.serializer", "linger.ms",
    "max.block.ms", "max.request.size", "request.timeout.ms", "security.protocol",
    "socket.connection.setup.timeout.ms", "value.serializer",
})  # fmt: skip
"""The keys that decide something here; security.protocol must be PLAINTEXT."""
YIELD_AFTER = 64


class WrittenAt(NamedTuple):
    """Where a record was written; the offset is -1 where nobody says."""

    partition: int
    offset: int


OnWritten = Callable[[WrittenAt | None, JavaError | None], object]
"""Is told of a record where it is, or why it is nowhere."""


def run_sender(properties: Mapping[str, str], topic: str, work: Callable[[Sender], Awaitable[None]]) -> None:
    """Do ``work`` with a sender of records for a topic; JavaError when Kafka's producer would not start."""
    if "bootstrap.servers" not in properties:
        why = 'Missing required configuration "bootstrap.servers" which has no default value.'
        raise JavaError(CONFIG_ERROR, why)
    demand_consistent(properties)
    options = ProducerOptions(
        acks=acks_of(properties),
        idempotent=acks_of(properties) == -1 and properties.get("enable.idempotence", "true").strip().lower() == "true",
        codec=codec_of(properties),
        linger_ms=number_of(properties, "linger.ms", LINGER_MS),
        batch_bytes=number_of(properties, "batch.size", BATCH_BYTES),
        buffer_bytes=number_of(properties, "buffer.memory", BUFFER_BYTES),
        request_bytes=number_of(properties, "max.request.size", REQUEST_BYTES),
        request_timeout_ms=number_of(properties, "request.timeout.ms", 30_000),
        delivery_timeout_ms=number_of(properties, "delivery.timeout.ms", 120_000),
    )
    if not properties["bootstrap.servers"].strip():
        raise empty_servers()
    block_ms = number_of(properties, "max.block.ms", 60_000)
    try:
        session = ToolSession(properties, client="Producer")
    except JavaError as error:
        raise JavaError(KAFKA_ERROR, NO_PRODUCER, error) from None

    async def send_all() -> None:
        sender = Sender(session, topic, options, block_ms)
        try:
            await work(sender)
        finally:
            sender.close()

    with session, asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(send_all())


class Sender:
    """Takes the records of one topic; ``flush`` waits for what has been taken."""

    def __init__(self, session: ToolSession, topic: str, options: ProducerOptions, block_ms: int) -> None:
        self.topic = topic
        self.options = options
        self._block_ms = block_ms
        self._count = 0
        self._invalid = False
        world = real_world(asyncio.get_running_loop(), lambda name, error: log("ERROR", f"{name}: {error}", __name__))
        client = Client(WorldLines(world, session.connection), session.bootstrap, ClientOptions(retry_backoff_ms=100))
        self._producer = Producer(client, options)

    async def send(
        self, value: bytes, told: OnWritten, *, key: bytes | None = None, timestamp_ms: int | None = None
    ) -> None:
        """Take a record, as soon as there is room; ``told`` is called once, now or later."""
        try:
            if self._invalid:
                raise JavaError(f"{PACKAGE}InvalidTopicException", self.topic)
            await await_topic(self._producer.client, self.topic, self._block_ms)
            demand_size(key, value, (), self.options.request_bytes)
        except JavaError as error:
            self._invalid |= error.kind == f"{PACKAGE}InvalidTopicException"
            told(None, error)
            return
        await self._producer.room()
        delivery = self._producer.send(self.topic, value, key, timestamp_ms=timestamp_ms)
        delivery.on_done(lambda written: told(*_outcome(delivery, written)))
        self._count += 1
        if self._count % YIELD_AFTER == 0:
            await asyncio.sleep(0)

    async def flush(self) -> None:
        """Wait until of every record is told what became of it."""
        await self._producer.flush()
        await asyncio.sleep(0)  # for those that are told last

    def close(self) -> None:
        """Break the connections; what is under way is cancelled with the loop, and must begin nothing there."""
        self._producer.abandon()
        self._producer.client.close()


def _outcome(delivery: Delivery, written: BatchOutcome) -> tuple[WrittenAt | None, JavaError | None]:
    if written.code is Code.NONE:
        return WrittenAt(delivery.partition, delivery.own(written).base_offset), None
    return None, kafka_error(written.code, written.message)


class Throttle:
    """Holds a loop back to so many records a second; negative: never, 0: for ever after the first."""

    def __init__(self, per_s: float) -> None:
        self._per_s = per_s
        self._started = time.monotonic()

    async def pause(self, sent: int) -> None:
        """Wait until ``sent`` records are not too many."""
        elapsed_s = time.monotonic() - self._started
        if self._per_s < 0 or elapsed_s <= 0 or sent / elapsed_s <= self._per_s:
            return
        if self._per_s == 0:
            await asyncio.Event().wait()
        await asyncio.sleep(sent / self._per_s - elapsed_s)
