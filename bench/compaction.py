"""What a compaction costs the clients of other topics: ``python -m bench.compaction [RUNS]``.

One node with a topic of some 45 MB in small records (700,000 of 10,000 keys), whose compaction begins a while after the
load; beside it a client that produces one record of 100 B at a time to another topic, acks=1, and times each. Before
it begins, and as long after its end, the node is idle: the ratio of the quantiles is what a client notices.
The median of several runs is told: whatever else the machine does is in each of them.
"""

from __future__ import annotations

import socket
import statistics
import struct
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from moldau.client import sync
from moldau.cluster import Cluster
from moldau.model import TopicPartition
from moldau.wire.batch import build
from moldau.wire.frames import read_response_body, request_frame
from moldau.wire.messages.k00_produce import ProduceRequest
from moldau.wire.messages.k19_create_topics import CreateTopicsRequest

IDLE_S, LOAD_BATCHES, KEYS = 8.0, 70, 10_000
PAUSE_S = 0.005
FEWEST = 100
"""Samples beside a compaction without which a run tells nothing."""


class Line:
    """One connection, one request at a time."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, message: Any, version: int) -> Any:
        self._socket.sendall(b"".join(bytes(part) for part in request_frame(message, version, 1, "bench")))
        (size,) = struct.unpack(">i", self._read(4))
        return read_response_body(memoryview(self._read(size)), message.api_key, version)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise ConnectionError("closed by the broker")
            data += more
        return data


def create(line: Line) -> None:
    """The compacted topic, and the one that is timed."""
    settings = {"cleanup.policy": "compact", "segment.bytes": str(8 << 20), "min.cleanable.dirty.ratio": "0"}
    configs = [CreateTopicsRequest.CreatableTopicConfig(name=name, value=value) for name, value in settings.items()]
    topics = [
        CreateTopicsRequest.CreatableTopic(name="keyed", num_partitions=1, replication_factor=1, configs=configs),
        CreateTopicsRequest.CreatableTopic(name="timed", num_partitions=1, replication_factor=1),
    ]
    line.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7)


def timed_until(line: Line, record: bytes, until: Any) -> list[float]:
    """Milliseconds of each produce request, one after the other, until ``until()``."""
    data = ProduceRequest.PartitionProduceData(index=0, records=record)
    topic = ProduceRequest.TopicProduceData(name="timed", partition_data=[data])
    found = []
    while not until():
        began = time.perf_counter()
        line.ask(ProduceRequest(acks=1, timeout_ms=5_000, topic_data=[topic]), 9)
        found.append((time.perf_counter() - began) * 1000)
        time.sleep(PAUSE_S)
    return found


def measure(data: str) -> tuple[list[float], list[float], float]:
    """Times of an idle node, times beside a compaction, and how many seconds that took."""
    backoff_ms = str(int((IDLE_S + 12) * 1000))
    settings = {"log.cleaner.backoff.ms": backoff_ms, "replica.high.watermark.checkpoint.interval.ms": "500"}
    with Cluster(brokers=1, data=data, config=settings) as cluster:
        folder = Path(cluster.spec.nodes[0].folder) / "data" / "keyed-0"
        line = Line(cluster.bootstrap_servers)
        create(line)
        time.sleep(0.5)
        now = int(time.time() * 1000)
        batch = build([(now, b"key-%07d" % number, b"v" * 40, ()) for number in range(KEYS)])
        record = build([(now, None, b"v" * 100, ())])
        with sync.Cluster(cluster.bootstrap_servers) as client:
            for _ in range(LOAD_BATCHES):
                client.produce(TopicPartition("keyed", 0), batch)
        begins = time.monotonic() + IDLE_S
        idle = timed_until(line, record, lambda: time.monotonic() > begins)
        while not started(folder):
            time.sleep(0.02)
        began = time.monotonic()
        beside = timed_until(line, record, lambda: bool(list(folder.glob("*.deleted"))))
        took_s = time.monotonic() - began
        over = time.monotonic() + IDLE_S
        idle += timed_until(line, record, lambda: time.monotonic() > over)
        return idle, beside, took_s


def started(folder: Path) -> bool:
    """Whether a run is under way; its first files come once all keys are noted."""
    return bool(list(folder.glob("*.cleaned")) or list(folder.glob("*.deleted")))


def quantile(times: list[float], share: float) -> float:
    return sorted(times)[min(int(len(times) * share), len(times) - 1)]


def main() -> None:
    ratios: dict[str, list[float]] = {"p50": [], "p99": []}
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 3):
        with tempfile.TemporaryDirectory() as data:
            idle, beside, took_s = measure(data)
        if len(beside) < FEWEST:
            sys.exit(f"only {len(beside)} requests were timed beside the compaction, which took {took_s:.1f} s")
        print(f"{took_s:.1f} s after the first file of the compaction; {len(idle)} requests idle, {len(beside)} beside")
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            before, after = quantile(idle, share), quantile(beside, share)
            ratios[name].append(after / before)
            print(f"  {name}: idle {before:.2f} ms, beside a compaction {after:.2f} ms: {after / before:.1f} x")
    for name, found in ratios.items():
        print(f"{name}: {statistics.median(found):.1f} x idle (median of {len(found)})")


if __name__ == "__main__":
    main()
