"""The load: idempotent producers with acks=all, a reader that follows, and the last reading from the start.

Everything goes through confluent-kafka with its default timeouts, each producer in a thread of its
own, and is recorded as it was seen. Decides nothing about right or wrong. Read next: ``moldau.history``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from moldau.history.rows import FAIL, INFO, OK, Read, Send

CLOSE_TIMEOUT_S = 20.0
READ_TIMEOUT_S = 120.0
_STEP_S = 0.05


class LoadPlan(NamedTuple):
    """How much: producers, records per second of each, bytes per value. ``more``: other settings for librdkafka."""

    topic: str
    partitions: int
    producers: int = 3
    rate_per_s: float = 200.0
    value_bytes: int = 100
    more: Mapping[str, object] = {}


class ProducerSession:
    """One producer session: one producer id, so its records of a partition must stay in the order of the calls."""

    def __init__(self, name: str, bootstrap_servers: str, plan: LoadPlan) -> None:
        from confluent_kafka import KafkaException, Producer

        self.name = name
        self._refusal = KafkaException
        self.sends: list[Send] = []
        self.acked_ns = [-1] * plan.partitions
        """Per partition, when the newest acknowledged record was sent."""
        self.acks = [0] * plan.partitions
        self.broken = ""
        self._plan = plan
        self._padding = "." * plan.value_bytes
        settings = {"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "acks": "all", "log_level": 0}
        self._producer = Producer({**settings, **plan.more}, error_cb=self._failed)

    def send(self) -> None:
        """Hand one record to the producer; partitions take turns."""
        number = len(self.sends)
        target = number % self._plan.partitions
        value = f"{self.name}-{number}"
        text = (value + " " + self._padding)[: max(self._plan.value_bytes, len(value) + 1)]
        self.sends.append(Send(self.name, number, target, value, time.monotonic_ns()))
        try:
            answer = partial(self._answered, number)
            self._producer.produce(self._plan.topic, text.encode(), partition=target, on_delivery=answer)
        except BufferError as error:
            self._close(number, FAIL, error=str(error))
        except self._refusal as error:  # a fatal one, met before the callback told of it: nothing was handed over
            self.broken = self.broken or str(error)
            self._close(number, FAIL, error=str(error))

    def poll(self, wait_s: float) -> None:
        """Receive answers for a while."""
        try:
            self._producer.poll(max(wait_s, 0))
        except self._refusal as error:  # a fatal one, which the callback may have told as well
            self.broken = self.broken or str(error)

    def finish(self, timeout_s: float) -> None:
        """Wait for the answers that are due."""
        until = time.monotonic() + timeout_s
        while len(self._producer) and (left := until - time.monotonic()) > 0:
            try:
                self._producer.flush(left)
            except (self._refusal, SystemError) as error:  # the second: a callback was called with the first pending
                self.broken = self.broken or str(error)
                time.sleep(_STEP_S)  # a pace: it may raise again at once until its records are given up

    def _answered(self, number: int, error: Any, message: Any) -> None:
        if error is None:
            # None: the log had it already, of an earlier try, and the answer does not say where.
            offset = message.offset()
            self._close(number, OK, -1 if offset is None else offset)
            send = self.sends[number]
            self.acked_ns[send.partition] = max(self.acked_ns[send.partition], send.invoke_ns)
            self.acks[send.partition] += 1
        else:
            # The client tries again by itself and tells only of the last try: any earlier one may have arrived.
            self._close(number, INFO, error=f"{error.name()}: {error.str()}")

    def _close(self, number: int, outcome: str, offset: int = -1, error: str = "") -> None:
        self.sends[number] = self.sends[number]._replace(
            complete_ns=time.monotonic_ns(), outcome=outcome, offset=offset, error=error
        )

    def _failed(self, error: Any) -> None:
        if error.fatal():  # the idempotent producer cannot vouch for order any more
            self.broken = f"{error.name()}: {error.str()}"


class LoadProducer(threading.Thread):
    """A thread that sends at an even pace until ``stop``, in a new session after one that broke."""

    def __init__(self, name: str, bootstrap_servers: str, plan: LoadPlan) -> None:
        super().__init__(name=name, daemon=True)
        self.sessions = [ProducerSession(f"{name}.0", bootstrap_servers, plan)]
        self.broken: list[str] = []
        self._bootstrap_servers = bootstrap_servers
        self._plan = plan
        self._over = threading.Event()

    def run(self) -> None:
        step_s = 1 / self._plan.rate_per_s
        due = time.monotonic()
        while not self._over.is_set():
            session = self.sessions[-1]
            if session.broken:
                session = self._again(session)
            session.send()
            due = max(due + step_s, time.monotonic() - 1)  # what a stalled machine missed is not caught up for ever
            session.poll(0)
            while (left := due - time.monotonic()) > 0:
                session.poll(left)

    def stop(self, timeout_s: float) -> None:
        """Send no more and wait for every answer."""
        self._over.set()
        self.join()
        for session in self.sessions:
            session.finish(timeout_s)
            if session.broken:
                self.broken.append(f"{session.name}: {session.broken}")

    def _again(self, broken: ProducerSession) -> ProducerSession:
        self.broken.append(f"{broken.name}: {broken.broken}")
        broken.finish(1)
        broken.broken = ""
        self.sessions.append(ProducerSession(f"{self.name}.{len(self.sessions)}", self._bootstrap_servers, self._plan))
        return self.sessions[-1]


class LoadFollower(threading.Thread):
    """A reader that follows the topic through all faults; ``errors`` are what librdkafka could not mend itself."""

    def __init__(self, bootstrap_servers: str, plan: LoadPlan) -> None:
        super().__init__(name="follower", daemon=True)
        self.reads: list[Read] = []
        self.errors: list[str] = []
        self._consumer = _reader(bootstrap_servers, plan, "kills-follower")
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.is_set():
            for message in self._consumer.consume(1000, _STEP_S):
                if message.error() is None:
                    self.reads.append(_read("follower", message))
                elif message.error().code() != _end_of_partition():
                    self.errors.append(message.error().str())
        _end(self._consumer)

    def stop(self) -> None:
        self._over.set()
        self.join()


class ProducerLoad:
    """All writers and the follower: start, progress, stop."""

    def __init__(self, bootstrap_servers: str, plan: LoadPlan) -> None:
        self.plan = plan
        self.writers = [LoadProducer(f"p{n}", bootstrap_servers, plan) for n in range(plan.producers)]
        self.follower = LoadFollower(bootstrap_servers, plan)

    def start(self) -> None:
        for thread in (*self.writers, self.follower):
            thread.start()

    def stop(self, timeout_s: float = 330.0) -> None:
        """Stop sending and wait for all answers (librdkafka gives up on a record after 300 s)."""
        for writer in self.writers:
            writer.stop(timeout_s)
        self.follower.stop()

    def acked_since(self, ns: int) -> bool:
        """Whether every partition has acknowledged something that was sent after that time."""
        newest = [max(s.acked_ns[p] for w in self.writers for s in w.sessions) for p in range(self.plan.partitions)]
        return min(newest) > ns

    def acks_min(self) -> int:
        """How many records the partition with the fewest has acknowledged."""
        return min(sum(s.acks[p] for w in self.writers for s in w.sessions) for p in range(self.plan.partitions))

    def sends(self) -> list[Send]:
        return [send for writer in self.writers for session in writer.sessions for send in session.sends]

    def broken(self) -> list[str]:
        """Producer sessions that ended with a fatal error, and errors of the follower."""
        return [text for writer in self.writers for text in writer.broken] + self.follower.errors


def high_watermarks(bootstrap_servers: str, plan: LoadPlan) -> dict[int, int]:
    """Return the end of each partition, as its leader answers now; KafkaException when one does not for a minute."""
    consumer = _reader(bootstrap_servers, plan, "kills-ends")
    try:
        return {number: _high_watermark(consumer, plan.topic, number) for number in range(plan.partitions)}
    finally:
        _end(consumer)


def _high_watermark(consumer: Any, topic: str, number: int) -> int:
    from confluent_kafka import KafkaException, TopicPartition

    deadline = time.monotonic() + 60
    while True:
        try:
            return int(consumer.get_watermark_offsets(TopicPartition(topic, number), 10, False)[1])
        except KafkaException:  # asked whoever led a moment ago; librdkafka calls not even that retriable here
            if time.monotonic() > deadline:
                raise
            with suppress(KafkaException):  # and goes on asking it, unless it is told anew who leads
                consumer.list_topics(topic, 10)
            time.sleep(_STEP_S)


def read_all(bootstrap_servers: str, plan: LoadPlan, ends: Mapping[int, int]) -> list[Read]:
    """Return every record of the topic from the start to ``ends``, by a fresh reader; fewer when time is up."""
    consumer = _reader(bootstrap_servers, plan, "kills-final")
    found: list[Read] = []
    left = {number for number, end in ends.items() if end > 0}
    deadline = time.monotonic() + READ_TIMEOUT_S
    try:
        while left and time.monotonic() < deadline:
            for message in consumer.consume(10_000, _STEP_S):
                if message.error() is None:
                    found.append(_read("final", message))
                    deadline = time.monotonic() + READ_TIMEOUT_S
                    if message.offset() + 1 >= ends[message.partition()]:
                        left.discard(message.partition())
    finally:
        _end(consumer)
    return found


def _read(process: str, message: Any) -> Read:
    return Read(process, message.partition(), message.offset(), message.value().decode().partition(" ")[0])


def _reader(bootstrap_servers: str, plan: LoadPlan, group: str) -> Any:
    from confluent_kafka import Consumer, TopicPartition

    settings = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "error",  # an offset that is out of range must be an error, not be reset
        "check.crcs": True,
        "log_level": 0,
    }
    consumer = Consumer(settings, error_cb=lambda error: None)  # broken connections, which it mends
    consumer.assign([TopicPartition(plan.topic, number, 0) for number in range(plan.partitions)])
    return consumer


def _end(consumer: Any) -> None:
    """Close it, but wait for that no longer than it matters: librdkafka's close has no time of its own."""
    closing = threading.Thread(target=consumer.close, name="closing", daemon=True)
    closing.start()
    closing.join(CLOSE_TIMEOUT_S)


def _end_of_partition() -> int:
    from confluent_kafka import KafkaError

    return int(KafkaError._PARTITION_EOF)
