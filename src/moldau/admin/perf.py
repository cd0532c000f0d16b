"""``moldau perf``: rates and latencies of writing, of reading, and of the way from one to the other.

One process of Python is measured beside the cluster: rates are what this client can do, and less than the cluster can.
Latencies with a rate are told twice: from when a record was sent, and from when it was due. Only the second counts the
records that a pause kept from being sent (coordinated omission).
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from moldau.admin.asking import Talk, client_options, refused
from moldau.admin.completing import topics as complete_topics
from moldau.admin.lazy import Noun
from moldau.admin.main import fail
from moldau.admin.options import OUTPUT, SERVERS, SIZE, Finite
from moldau.admin.output import note, say, show
from moldau.admin.produce import ACKS, CODECS
from moldau.admin.progress import ProgressBar
from moldau.model.counted import counted
from moldau.model.named import NamedTuple

if TYPE_CHECKING:
    from moldau.admin.client_config import ClientConfig
    from moldau.client.producer import Producer
    from moldau.client.writing import BatchOutcome
    from moldau.model import TopicPartition

PERCENTILES = (50, 90, 99, 99.9, 100)
POLL_MS = 200
PATIENCE_S = 30.0
COUNT = click.option("-n", "--records", "count", type=click.IntRange(min=1), default=100_000, show_default=True)
LENGTH = click.option("--size", type=SIZE, default="100", show_default=True, help="Bytes of each value.")
PER_SECOND = Finite(min=1e-3, max=1e9)
RATE = click.option("--rate", type=PER_SECOND, help="Records a second; as fast as it can.")
ACKED = click.option("--acks", type=click.Choice(list(ACKS)), default="all", show_default=True)


class Writing(TypedDict):
    """What is written, and how."""

    count: int
    size: int
    rate: float | None
    acks: str
    compression: str


class Measured(NamedTuple):
    """How many records took how long, and how long each of them, by percentile."""

    what: str
    records: int
    size: int
    took_s: float
    latencies: Mapping[str, float] = {}

    @property
    def records_per_s(self) -> float:
        """The rate of records."""
        return self.records / self.took_s

    @property
    def mb_per_s(self) -> float:
        """The rate of bytes, in millions."""
        return self.size / self.took_s / 1e6

    def row(self) -> dict[str, object]:
        """What is printed, for a script."""
        return {
            "what": self.what,
            "records": self.records,
            "seconds": round(self.took_s, 3),
            "records_per_s": round(self.records_per_s, 1),
            "mb_per_s": round(self.mb_per_s, 3),
            **self.latencies,
        }


@click.group(cls=Noun)
def perf() -> None:
    """Measure writing, reading, and the way from one to the other.

    \b
    moldau perf produce orders --records 20000 --size 1KB
    moldau perf produce orders --records 2000 --rate 1000
    moldau perf consume orders --records 1000
    moldau perf latency orders --records 200 --rate 100
    """


@perf.command()
@click.argument("topic", shell_complete=complete_topics)
@COUNT
@LENGTH
@RATE
@ACKED
@click.option("-z", "--compression", type=click.Choice(CODECS), default="none", show_default=True)
@SERVERS
@OUTPUT
def produce(topic: str, bootstrap: str, output: str, **options: Unpack[Writing]) -> None:
    """Write records of random bytes to TOPIC, spread over its partitions: rate, and latencies until acknowledged."""
    import asyncio

    from moldau.runtime.world import new_loop

    with Talk(bootstrap) as talk:  # says why, when nobody answers
        talk.existing([topic])
        config = talk.config
    with asyncio.Runner(loop_factory=new_loop) as runner:
        row = runner.run(_produced(bootstrap, topic, config, options))
    _show([row], output)


async def _produced(bootstrap: str, topic: str, config: ClientConfig, options: Writing) -> Measured:
    import asyncio

    from moldau.client.client import Client
    from moldau.client.producer import Producer, ProducerOptions
    from moldau.client.world_lines import WorldLines
    from moldau.runtime.world import real_world
    from moldau.wire.compression import Codec

    world = real_world(asyncio.get_running_loop(), lambda name, error: note(f"moldau: {name}: {error}"))
    settings, connection = client_options(config)
    client = Client(WorldLines(world, connection), bootstrap, settings)
    acks = ACKS[options["acks"]]
    producing = ProducerOptions(acks=acks, idempotent=acks == -1, codec=Codec[options["compression"].upper()])
    producer = Producer(client, producing)
    try:
        await producer.prepare(topic)
        return await _send(producer, topic, options)
    finally:
        client.close()
        await asyncio.sleep(0)  # whoever waits on its connections hears of it before the loop ends


async def _send(producer: Producer, topic: str, options: Writing) -> Measured:
    import asyncio

    count, rate, value = options["count"], options["rate"], os.urandom(options["size"])
    parts = len(producer.client.view.topics[topic].partitions)
    watch = _Watch()
    started = time.perf_counter()
    with ProgressBar("records", count) as progress:
        for number in range(count):
            now = time.perf_counter()
            when_due = started + number / rate if rate else now
            if when_due > now:
                await asyncio.sleep(when_due - now)
            elif number % 64 == 0:
                await asyncio.sleep(0)
            await producer.room()
            delivery = producer.send(topic, value, partition=number % parts)
            delivery.on_done(partial(watch.acknowledged, time.perf_counter(), when_due))
            if watch.refused is not None:
                break
            if number % 64 == 0 or rate:
                progress.at(number)
        await producer.flush()
    await asyncio.sleep(0)  # for what is told last
    if watch.refused is not None:
        refused(f"a record for {topic}", watch.refused.code, watch.refused.message)
    took = time.perf_counter() - started
    latencies = {**_latencies(watch.sent, "ms"), **(_latencies(watch.due, "due_ms") if rate else {})}
    return Measured("produce", count, count * len(value), took, latencies)


class _Watch:
    """Seconds from when records were sent, and were due, until they were acknowledged; the first refusal."""

    def __init__(self) -> None:
        self.sent: list[float] = []
        self.due: list[float] = []
        self.refused: BatchOutcome | None = None

    def acknowledged(self, sent: float, due: float, written: BatchOutcome) -> None:
        """A record's batch is written, or refused."""
        from moldau.model import Code

        if written.code is not Code.NONE:
            self.refused = self.refused or written
        now = time.perf_counter()
        self.sent.append(now - sent)
        self.due.append(now - due)


@perf.command()
@click.argument("topic", shell_complete=complete_topics)
@COUNT
@SERVERS
@OUTPUT
def consume(topic: str, bootstrap: str, count: int, output: str) -> None:
    """Read records of TOPIC from the beginning: the rate of batches that are checked, and of records taken apart."""
    from moldau.client.consumer import Consumer, ConsumerOptions
    from moldau.client.reading import EARLIEST
    from moldau.model import Code

    with Talk(bootstrap) as talk:
        consumer = Consumer(talk.cluster.client, ConsumerOptions(partition_max_bytes=4 << 20))
        consumer.assign(dict.fromkeys(talk.partitions(topic), EARLIEST))
        records = size = 0
        started = last = time.perf_counter()
        with ProgressBar("records", count) as progress:
            while records < count and time.perf_counter() - last < 2.0:
                for chunk in talk.cluster.run(consumer.poll(POLL_MS)):
                    if chunk.fetched.code is not Code.NONE:
                        refused(str(chunk.partition), chunk.fetched.code)
                    records += sum(1 for _ in chunk.records())
                    size += len(chunk.fetched.records)
                    last = time.perf_counter()
                    progress.at(records)
    if unread := sorted(one for one in consumer.assignment if consumer.position(one) < 0):
        have = counted(len(unread), "partition has", "partitions have")
        fail(f"{have} no leader that answers, {unread[0]} the first: nothing of that was read")
    if records < count:
        note(f"the topic has {counted(records, 'record')}")
    _show([Measured("consume", records, size, max(last - started, 1e-9))], output)


@perf.command()
@click.argument("topic", shell_complete=complete_topics)
@click.option("-n", "--records", "count", type=click.IntRange(min=1), default=1_000, show_default=True)
@LENGTH
@click.option("--rate", type=PER_SECOND, default=100.0, show_default=True, help="A second.")
@ACKED
@SERVERS
@OUTPUT
def latency(topic: str, bootstrap: str, count: int, size: int, rate: float, acks: str, output: str) -> None:
    """Write records to partition 0 of TOPIC one by one and read each back: until acknowledged, and until read.

    A record is due at its place in the rate. One that is late because the one before was slow counts from when it was
    due, in the columns DUE-..: what somebody who did not wait would have seen.
    """
    from moldau.client.feeding import FeedOptions, TopicFeed
    from moldau.client.reading import LATEST
    from moldau.model import TopicPartition

    acked: list[float] = []
    read: list[float] = []
    due: list[float] = []
    with Talk(bootstrap) as talk:
        talk.existing([topic])
        place = TopicPartition(topic, 0)
        feed = TopicFeed(talk.cluster.client, topic, FeedOptions(acks=ACKS[acks]))
        offset = talk.cluster.offsets({place: LATEST})[place].offset
        value = os.urandom(size)
        started = time.perf_counter()
        with ProgressBar("records", count) as progress:
            for number in range(count):
                when_due = started + number / rate
                time.sleep(max(0.0, when_due - time.perf_counter()))
                sent = time.perf_counter()
                feed.add(None, value, partition=0)
                talk.cluster.run(feed.flush())
                acked.append(time.perf_counter() - sent)
                offset = _await_record(talk, place, offset, value)
                read.append(time.perf_counter() - sent)
                due.append(time.perf_counter() - when_due)
                progress.at(number + 1)
        took = time.perf_counter() - started
    rows = [
        Measured("acknowledged", count, count * size, took, _latencies(acked, "ms")),
        Measured("read", count, count * size, took, {**_latencies(read, "ms"), **_latencies(due, "due_ms")}),
    ]
    _show(rows, output)


def _await_record(talk: Talk, place: TopicPartition, offset: int, value: bytes) -> int:
    """Where reading goes on once the record is there; others' records are passed over."""
    from moldau.client.reading import FetchOptions, visible
    from moldau.model import Code

    deadline = time.perf_counter() + PATIENCE_S
    while time.perf_counter() < deadline:
        got = talk.cluster.fetch(place, offset, FetchOptions(max_wait_ms=1_000))
        if got.code is not Code.NONE:
            refused(f"{place} at offset {offset}", got.code)
        for record in visible(got, offset):
            if record.value == value:
                return record.offset + 1
        offset = got.next_offset
    return refused(f"{place}: the record was not there to read", Code.REQUEST_TIMED_OUT)


def _latencies(found: Sequence[float], unit: str) -> dict[str, float]:
    """Percentiles in milliseconds; the last one is the longest."""
    ranked = sorted(found)
    return {
        f"p{percent:g}_{unit}" if percent < 100 else f"max_{unit}": round(percentile(ranked, percent) * 1000, 3)
        for percent in PERCENTILES
    }


def percentile(ranked: Sequence[float], percent: float) -> float:
    """The smallest value that is not exceeded by this share of all (nearest rank); they are sorted, and not empty."""
    from math import ceil

    return ranked[max(0, ceil(percent / 100 * len(ranked) - 1e-9) - 1)]


def _show(found: Sequence[Measured], output: str) -> None:
    rows = [one.row() for one in found]
    names = list(dict.fromkeys(name for row in rows for name in row))
    if output in ("json", "yaml", "tsv"):
        show(rows, output, names)
        return
    for one in found:
        say(f"{one.what}: {one.records} records in {one.took_s:.2f} s, "
              f"{one.records_per_s:.0f} records/s, {one.mb_per_s:.2f} MB/s")  # fmt: skip
        for unit, what in (("_due_ms", "from when due "), ("_ms", "from when sent")):
            cells = [(name.removesuffix(unit), ms) for name, ms in one.latencies.items() if name.endswith(unit)]
            cells = [(name, ms) for name, ms in cells if not name.endswith("_due")]
            if cells:
                say(f"  {what}  " + "  ".join(f"{name} {ms:.1f} ms" for name, ms in cells))
