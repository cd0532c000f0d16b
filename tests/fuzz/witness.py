"""The innocent neighbour: a process that asks every node small things all the time and produces to a topic of its own.

It prints one JSON line at its end: how long the longest answer took, what was acknowledged, and what can be read. What
the machine took from a node or from the witness itself (time in the kernel's run queue) is no fault of the node's and
is not counted: /proc/PID/task/PID/schedstat says it. Run by ``target.py``; ends when its standard input does.
"""

from __future__ import annotations

import functools
import json
import socket
import struct
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import confluent_kafka

from moldau.wire.frames import request_frame
from moldau.wire.messages.k18_api_versions import ApiVersionsRequest

PERIOD_S = 0.005
GIVE_UP_S = 30.0
TELL_S = 0.1
"""Answers later than this are listed one by one."""
ASK = b"".join(request_frame(ApiVersionsRequest(), 0, 7, "witness"))
TOPIC = "witness"


def queued_s(pid: int) -> float:
    """How long a process's first thread has waited for a processor so far, in seconds."""
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[1]) / 1e9
    return 0.0


class Probe(threading.Thread):
    """Asks one node for its versions again and again, on one connection, and keeps the worst that it saw."""

    def __init__(self, id: int, address: tuple[str, int], pid_file: Path, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.id = id
        self.address = address
        self.pid_file = pid_file
        self.stop = stop
        self.asked = 0
        self.worst_s = 0.0
        self.late: list[tuple[float, float]] = []
        """When (seconds since the epoch) and how long, for each answer later than ``TELL_S``."""

    def run(self) -> None:
        while not self.stop.is_set():
            with suppress(OSError, ValueError):  # it is down, or being started: nothing is asked of it
                pid = int(self.pid_file.read_text())
                with socket.create_connection(self.address, GIVE_UP_S) as line:
                    self._ask(line, pid)
            self.stop.wait(0.05)

    def _ask(self, line: socket.socket, pid: int) -> None:
        own = threading.get_native_id()
        line.settimeout(GIVE_UP_S)
        while not self.stop.is_set():
            before = queued_s(pid) + self._own_queue_s(own)
            began = time.monotonic()
            line.sendall(ASK)
            try:
                self._answer(line)
            except TimeoutError:
                self.late.append((time.time(), GIVE_UP_S))
                self.worst_s = GIVE_UP_S
                return
            took = time.monotonic() - began
            if took > TELL_S / 2:
                took -= queued_s(pid) + self._own_queue_s(own) - before
            self.asked += 1
            self.worst_s = max(self.worst_s, took)
            if took > TELL_S:
                self.late.append((time.time(), took))
            time.sleep(PERIOD_S)

    @staticmethod
    def _own_queue_s(thread: int) -> float:
        with suppress(OSError):
            return int(Path(f"/proc/self/task/{thread}/schedstat").read_text().split()[1]) / 1e9
        return 0.0

    @staticmethod
    def _answer(line: socket.socket) -> None:
        need, got = 4, b""
        while len(got) < need:
            part = line.recv(65_536)
            if not part:
                raise ConnectionError("closed")
            got += part
            if need == 4 and len(got) >= 4:
                need = 4 + struct.unpack_from(">i", got)[0]


def produce(servers: str, stop: threading.Event) -> list[int]:
    """Write numbers to the witness's topic until told to stop; those that were acknowledged."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 300_000}
    )
    acknowledged: list[int] = []

    def told(number: int, error: Any, _: Any) -> None:
        if error is None:
            acknowledged.append(number)

    number = 0
    while not stop.wait(0.01):
        text = b"%d" % number
        producer.produce(TOPIC, key=text, value=text, callback=functools.partial(told, number))
        producer.poll(0)
        number += 1
    producer.flush(120)
    return acknowledged


def read_back(servers: str, partitions: int) -> list[int]:
    """Every number that can be read from the witness's topic."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": "witness-reader"})
    found: list[int] = []
    try:
        for partition in range(partitions):
            where = confluent_kafka.TopicPartition(TOPIC, partition, 0)
            low, high = _ends(consumer, where)
            consumer.assign([confluent_kafka.TopicPartition(TOPIC, partition, low)])
            position, deadline = low, time.monotonic() + 120
            while position < high and time.monotonic() < deadline:
                for message in consumer.consume(500, 1.0):
                    if message.error() is None:
                        found.append(int(message.value() or b"-1"))
                        position = (message.offset() or 0) + 1
    finally:
        consumer.close()
    return found


def _ends(consumer: confluent_kafka.Consumer, where: confluent_kafka.TopicPartition) -> tuple[int, int]:
    """First offset and end of a partition, asked for until a leader answers."""
    deadline = time.monotonic() + 60
    while True:
        try:
            low, high = consumer.get_watermark_offsets(where, timeout=10)
            return int(low), int(high)
        except confluent_kafka.KafkaException:  # a leader may just be moving
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def main() -> None:
    servers, partitions, *nodes = sys.argv[1:]
    stop = threading.Event()
    probes = []
    for one in nodes:
        id, host, port, pid_file = one.split(",", 3)
        probes.append(Probe(int(id), (host, int(port)), Path(pid_file), stop))
    for probe in probes:
        probe.start()
    acknowledged: list[int] = []
    writer = threading.Thread(target=lambda: acknowledged.extend(produce(servers, stop)))
    writer.start()
    sys.stdin.read()
    stop.set()
    writer.join()
    found = read_back(servers, int(partitions))
    said = {
        "asked": sum(p.asked for p in probes),
        "worst_ms": round(max(p.worst_s for p in probes) * 1000, 1),
        "late": [[p.id, at, round(took * 1000, 1)] for p in probes for at, took in p.late],
        "acknowledged": len(acknowledged),
        "lost": sorted(set(acknowledged) - set(found))[:20],
        "twice": len(found) - len(set(found)),
    }
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
