"""What greedy, slow and many clients cost a node and its other clients: one node of Moldau, clients in this process.

    python -m bench.clients [--only CASE ...] [--json FILE]

Each case is measured against the same node at rest: the 99th percentile of another client's small requests, and the
node's resident memory. Cases: cold (4 connections pipeline 80 fetches of 16 MB each of data from before a restart, and
read nothing), idle (2,000 connections that once sent a megabyte), metadata (20 clients ask for 5,000 partitions),
arrays (requests whose arrays are long), half (500 connections announce 100 MB and send 64 KB), many (800 connections of
another process ask for the metadata of one topic, then of 5,000 partitions, each again when it is answered). Read next:
bench/run.py.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import selectors
import socket
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from moldau.client import sync
from moldau.cluster import Cluster
from moldau.model import TopicPartition
from moldau.wire.batch import build
from moldau.wire.frames import read_response_body, request_frame
from moldau.wire.messages.k01_fetch import FetchRequest
from moldau.wire.messages.k02_list_offsets import ListOffsetsRequest
from moldau.wire.messages.k03_metadata import MetadataRequest
from moldau.wire.messages.k09_offset_fetch import OffsetFetchRequest
from moldau.wire.messages.k18_api_versions import ApiVersionsRequest
from moldau.wire.messages.k19_create_topics import CreateTopicsRequest
from moldau.wire.schema import Message

TOPIC, MANY = "t", "many"
IDLE_S = 3.0
PARTITIONS = 5_000
CONNECTIONS = 800
ASKED_S = 6.0


class Row(NamedTuple):
    """One measured number."""

    what: str
    unit: str
    value: float


class Client:
    """One connection, blocking."""

    def __init__(self, address: str, receive_bytes: int = 0) -> None:
        host, port = address.rsplit(":", 1)
        self.socket = socket.socket()
        if receive_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(120)
        self.socket.connect((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, message: Message, version: int) -> None:
        self.socket.sendall(frame(message, version))

    def receive(self) -> bytes:
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def ask(self, message: Message, version: int) -> Any:
        self.send(message, version)
        return read_response_body(memoryview(self.receive()), message.api_key, version)

    def _exactly(self, size: int) -> bytes:
        got = bytearray()
        while len(got) < size:
            data = self.socket.recv(size - len(got))
            if not data:
                raise ConnectionError("the connection was closed")
            got += data
        return bytes(got)


def frame(message: Message, version: int) -> bytes:
    return b"".join(bytes(part) for part in request_frame(message, version, 1, "bench"))


class Other(threading.Thread):
    """Another client: it asks for ApiVersions two hundred times a second and keeps how long each answer took."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self._client = Client(address)
        self._over = threading.Event()
        self.took_s: list[float] = []
        self.start()

    def run(self) -> None:
        asked = ApiVersionsRequest(client_software_name="bench", client_software_version="1")
        while not self._over.is_set():
            began = time.perf_counter()
            self._client.ask(asked, 3)
            self.took_s.append(time.perf_counter() - began)
            self._over.wait(0.005)

    def end(self) -> list[float]:
        self._over.set()
        self.join()
        return sorted(self.took_s)


def share(took_s: list[float], part: float) -> float:
    """The quantile, in milliseconds."""
    return took_s[min(int(part * len(took_s)), len(took_s) - 1)] * 1000


class Stand:
    """The node on the bench."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.address = cluster.bootstrap_servers

    @property
    def resident_mb(self) -> float:
        pages = int(Path(f"/proc/{self.cluster.spec.nodes[0].pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    @contextmanager
    def beside(self, case: str) -> Iterator[list[Row]]:
        """Measure another client at rest and during what is done within; rows are added to what is given."""
        rows: list[Row] = []
        other = Other(self.address)
        time.sleep(IDLE_S)
        idle, before_mb = other.end(), self.resident_mb
        other, most_mb, over = Other(self.address), [before_mb], threading.Event()

        def watch() -> None:
            while not over.wait(0.02):
                most_mb.append(self.resident_mb)

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        yield rows
        busy = other.end()
        over.set()
        watcher.join()
        rows += [
            Row(f"{case}: another client at rest, p50", "ms", share(idle, 0.5)),
            Row(f"{case}: another client meanwhile, p50", "ms", share(busy, 0.5)),
            Row(f"{case}: another client at rest, p99", "ms", share(idle, 0.99)),
            Row(f"{case}: another client meanwhile, p99", "ms", share(busy, 0.99)),
            Row(f"{case}: the same, longest", "ms", busy[-1] * 1000),
            Row(f"{case}: resident memory before", "MB", before_mb),
            Row(f"{case}: resident memory, most", "MB", max(most_mb)),
        ]


def cold(stand: Stand) -> list[Row]:
    """Data from before a restart, fetched by clients that do not read."""
    with sync.Cluster(stand.address) as client:
        data = build([(int(time.time() * 1000), None, os.urandom(900_000), ())])
        for _ in range(40):
            client.produce(TopicPartition(TOPIC, 0), data)
    stand.cluster.stop()
    stand.cluster.start()
    stand.address = stand.cluster.bootstrap_servers
    part = FetchRequest.FetchPartition(partition=0, partition_max_bytes=16 << 20)
    asked = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=16 << 20,
        topics=[FetchRequest.FetchTopic(topic=TOPIC, partitions=[part])],
    )
    with stand.beside("cold") as rows:
        clients = [Client(stand.address, 4096) for _ in range(4)]
        for one in clients:
            one.socket.sendall(frame(asked, 4) * 80)
        time.sleep(5)
        for one in clients:
            one.socket.close()
    return rows


def idle(stand: Stand) -> list[Row]:
    """Connections that once sent a megabyte, and then nothing."""
    names = [MetadataRequest.MetadataRequestTopic(name="x" * 30_000) for _ in range(35)]
    large, before_mb = frame(MetadataRequest(topics=names, allow_auto_topic_creation=False), 12), stand.resident_mb
    clients = []
    with stand.beside("idle") as rows:
        for _ in range(2000):
            clients.append(Client(stand.address))
            clients[-1].socket.sendall(large)
            clients[-1].receive()
        time.sleep(1)
        each_kb = (stand.resident_mb - before_mb) * 1000 / len(clients)
    for one in clients:
        one.socket.close()
    return [*rows, Row("idle: memory of one of 2,000 connections after a request of a megabyte", "KB", each_kb)]


def metadata(stand: Stand) -> list[Row]:
    """Twenty clients that ask for everything, again and again."""
    wanted = CreateTopicsRequest.CreatableTopic(name=MANY, num_partitions=PARTITIONS, replication_factor=1)
    Client(stand.address).ask(CreateTopicsRequest(topics=[wanted], timeout_ms=60_000), 7)
    took_s: list[float] = []
    over = threading.Event()

    def asker() -> None:
        client = Client(stand.address)
        while not over.is_set():
            began = time.perf_counter()
            client.send(MetadataRequest(topics=None), 12)
            client.receive()
            took_s.append(time.perf_counter() - began)

    with stand.beside("metadata") as rows:
        threads = [threading.Thread(target=asker, daemon=True) for _ in range(20)]
        for one in threads:
            one.start()
        time.sleep(5)
        over.set()
        for one in threads:
            one.join()
    p50 = share(sorted(took_s), 0.5)
    return [*rows, Row("metadata: 20 clients ask for 5,000 partitions, p50", "ms", p50)]


def many(stand: Stand) -> list[Row]:
    """Eight hundred connections that ask for a topic, and for everything."""
    wanted = CreateTopicsRequest.CreatableTopic(name=MANY, num_partitions=PARTITIONS, replication_factor=1)
    Client(stand.address).ask(CreateTopicsRequest(topics=[wanted], timeout_ms=60_000), 7)
    one = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False)
    found: list[Row] = []
    for what, asked in {"one topic": one, "5,000 partitions": MetadataRequest(topics=None)}.items():
        case = f"many: {CONNECTIONS} connections ask for {what}"
        ours, theirs = multiprocessing.get_context("spawn").Pipe()
        asker = multiprocessing.get_context("spawn").Process(
            target=ask_on, args=(theirs, stand.address, frame(asked, 12)), daemon=True
        )
        asker.start()
        assert ours.recv() == CONNECTIONS, "all are connected"
        with stand.beside(case) as rows:
            ours.send("go")
            answered = ours.recv()
        asker.join()
        found += [*rows, Row(f"{case}: answers", "1/s", answered / ASKED_S)]
    return found


def ask_on(told: Connection, address: str, asked: bytes) -> None:
    """In a process of its own: connect, say so, and once told to, ask on each connection again and again."""
    host, port = address.rsplit(":", 1)
    lines = selectors.DefaultSelector()
    for _ in range(CONNECTIONS):
        line = socket.create_connection((host, int(port)))
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        lines.register(line, selectors.EVENT_READ, [0])
    told.send(CONNECTIONS)
    told.recv()
    for key in list(lines.get_map().values()):
        key.fileobj.send(asked)  # type: ignore[union-attr]  # a socket
    answered, room, end = 0, bytearray(1 << 20), time.monotonic() + ASKED_S
    while time.monotonic() < end:
        for key, _ in lines.select(0.1):
            asker, left = key.fileobj, key.data  # left: how much of the answer has not come yet
            assert isinstance(asker, socket.socket)
            came = asker.recv_into(room)
            if not left[0]:
                left[0] = 4 + struct.unpack_from(">i", room)[0]
            left[0] -= came
            if not left[0]:
                answered += 1
                asker.send(asked)
    told.send(answered)


def arrays(stand: Stand) -> list[Row]:
    """Requests whose arrays are long: some are worked on in turns, the longest are refused."""
    Part, Topic = FetchRequest.FetchPartition, FetchRequest.FetchTopic
    offsets = OffsetFetchRequest.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=list(range(1_000_000)))
    latest = [ListOffsetsRequest.ListOffsetsPartition(partition_index=n, timestamp=-1) for n in range(100_000)]
    parts = [Part(partition=n, partition_max_bytes=1000) for n in range(100_000)]
    asked: dict[str, tuple[Message, int]] = {
        "OffsetFetch of 1,000,000": (OffsetFetchRequest(group_id="g", topics=[offsets]), 5),
        "ListOffsets of 100,000": (
            ListOffsetsRequest(topics=[ListOffsetsRequest.ListOffsetsTopic(name=TOPIC, partitions=latest)]),
            7,
        ),
        "Fetch of 100,000": (FetchRequest(max_wait_ms=0, topics=[Topic(topic=TOPIC, partitions=parts)]), 12),
        "Metadata of 100,000 unknown names": (
            MetadataRequest(
                topics=[MetadataRequest.MetadataRequestTopic(name=f"n{n}") for n in range(100_000)],
                allow_auto_topic_creation=False,
            ),
            12,
        ),
    }
    found: list[Row] = []
    for what, (message, version) in asked.items():
        sent = frame(message, version)
        with stand.beside(what) as rows:
            for _ in range(3):
                client = Client(stand.address)
                try:
                    client.socket.sendall(sent)
                    client.receive()
                except OSError:
                    print(f"{what}: refused", flush=True)
                client.socket.close()
        found += rows
    return found


def half(stand: Stand) -> list[Row]:
    """Frames that are announced as the largest there may be, and hardly begun."""
    with stand.beside("half") as rows:
        clients = [Client(stand.address) for _ in range(500)]
        for one in clients:
            one.socket.sendall(struct.pack(">i", 100 << 20) + bytes(1 << 16))
        time.sleep(3)
    for one in clients:
        one.socket.close()
    return rows


CASES: dict[str, Callable[[Stand], list[Row]]] = {
    "cold": cold, "idle": idle, "metadata": metadata, "arrays": arrays, "half": half, "many": many,
}  # fmt: skip


def main() -> int:
    ask = argparse.ArgumentParser(description="Measure what greedy, slow and many clients cost.")
    ask.add_argument("--only", nargs="+", choices=CASES, metavar="CASE", help=f"some of: {', '.join(CASES)}")
    ask.add_argument("--json", help="write the rows to this file too")
    wish = ask.parse_args()
    most, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(most, min(hard, 8192)), hard))
    found: list[Row] = []
    for case in wish.only or CASES:
        with tempfile.TemporaryDirectory() as folder:
            cluster = Cluster(brokers=1, data=folder, config={"offsets.topic.num.partitions": "1"})
            with cluster:
                topic = CreateTopicsRequest.CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
                Client(cluster.bootstrap_servers).ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
                for row in CASES[case](Stand(cluster)):
                    print(f"{row.what}: {row.value:.3g} {row.unit}", flush=True)
                    found.append(row)
    if wish.json:
        Path(wish.json).write_text(json.dumps([row._asdict() for row in found], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
