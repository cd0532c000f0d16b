"""What one greedy client costs a quiet one, case by case: ``python -m bench.greedy [--only CASE ...] [--seconds N]``.

One node. The quiet client produces 100 B to a topic of its own, acks=1, every 5 ms, and times each request: first while
the node is idle, then beside the greedy one. A row holds both p50 and p99 and the most resident memory of the node.
In the case of a recovery there are three nodes, and another one than the quiet client's recovers. Cold pipelined
fetches and idle connections are ``bench/clients.py``, compaction is ``bench/compaction.py``.
"""

from __future__ import annotations

import argparse
import os
import struct
import sys
import tempfile
import threading
import time
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from bench.clients import Client, frame, share
from moldau.client import admin, sync
from moldau.cluster import Cluster, nodes
from moldau.model import TopicPartition
from moldau.wire.batch import build
from moldau.wire.crc import crc32c
from moldau.wire.messages.k00_produce import ProduceRequest
from moldau.wire.messages.k01_fetch import FetchRequest
from moldau.wire.messages.k02_list_offsets import ListOffsetsRequest
from moldau.wire.messages.k08_offset_commit import OffsetCommitRequest
from moldau.wire.messages.k09_offset_fetch import OffsetFetchRequest
from moldau.wire.messages.k10_find_coordinator import FindCoordinatorRequest
from moldau.wire.messages.k19_create_topics import CreateTopicsRequest
from moldau.wire.messages.k20_delete_topics import DeleteTopicsRequest
from moldau.wire.schema import Message

QUIET = "quiet"
MANY = 9_990
"""As many partitions as one request may create with their topic."""
SEGMENT_BYTES, SEGMENTS, BATCH_BYTES = 1 << 30, 1024, 64 << 20
RECOVERED_BYTES, LOGS, RECORD_BYTES = 3_000_000_000, 12, 1_000


class Quiet(threading.Thread):
    """The quiet client. ``took_s``: how long each answer took."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        record = build([(int(time.time() * 1000), None, b"v" * 100, ())])
        self._asked = frame(produce({QUIET: [0]}, record), 9)
        self._client = Client(address)
        self._over = threading.Event()
        self.took_s: list[float] = []
        self.start()

    def run(self) -> None:
        while not self._over.wait(0.005):
            began = time.perf_counter()
            self._client.socket.sendall(self._asked)
            self._client.receive()
            self.took_s.append(time.perf_counter() - began)

    def end(self) -> list[float]:
        self._over.set()
        self.join()
        return sorted(self.took_s)


class Bench:
    """The node, and how a case is measured on it."""

    def __init__(self, cluster: Cluster, seconds: float) -> None:
        self.cluster = cluster
        self.seconds = seconds
        self.row = ""

        self.watched = 0
        """Which of the nodes' memory is told."""

    @property
    def address(self) -> str:
        return self.cluster.bootstrap_servers.partition(",")[0]

    def resident_mb(self) -> float:
        """Resident memory of the watched node; 0 while it does not run."""
        pid = self.cluster.spec.nodes[self.watched].pid
        try:
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        except (FileNotFoundError, ProcessLookupError):
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    @contextmanager
    def beside(self) -> Iterator[None]:
        """The quiet client alone, then beside what is done within."""
        before_mb, quiet = self.resident_mb(), Quiet(self.address)
        time.sleep(self.seconds)  # as long as is measured: the quiet client works in its thread
        idle, quiet, most_mb, over = quiet.end(), Quiet(self.address), [before_mb], threading.Event()

        def watch() -> None:
            while not over.wait(0.02):
                most_mb.append(self.resident_mb())

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        yield
        busy = quiet.end()
        over.set()
        watcher.join()
        numbers = [share(took, part) for part in (0.5, 0.99) for took in (idle, busy)]
        self.row = "{:.2f} | {:.2f} | {:.2f} | {:.2f}".format(*numbers)
        self.row += f" | {numbers[3] / numbers[2]:.1f} x | {busy[-1] * 1000:.0f} | {before_mb:.0f} | {max(most_mb):.0f}"

    def many(self, clients: int, message: Message, version: int) -> str:
        """So many clients ask the same without a pause, as long as is measured; what to say of it."""
        sent, asked, end = frame(message, version), count(), time.monotonic() + self.seconds

        def ask() -> None:
            client = Client(self.address)
            with suppress(OSError):  # refused: the connection is closed
                while time.monotonic() < end:
                    client.socket.sendall(sent)
                    client.receive()
                    next(asked)
            client.socket.close()

        threads = [threading.Thread(target=ask, daemon=True) for _ in range(clients)]
        with self.beside():
            end = time.monotonic() + self.seconds
            for one in threads:
                one.start()
            for one in threads:
                one.join()
        return f"{next(asked)} answers"

    def create(self, name: str, partitions: int, node: int | None = None) -> None:
        """One replica each, all of them on ``node`` if it is told."""
        wanted = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        if node is not None:
            placed = CreateTopicsRequest.CreatableReplicaAssignment
            wanted.num_partitions = wanted.replication_factor = -1
            wanted.assignments = [placed(partition_index=n, broker_ids=[node]) for n in range(partitions)]
        (made,) = Client(self.address).ask(CreateTopicsRequest(topics=[wanted], timeout_ms=60_000), 7).topics
        if made.error_code:
            sys.exit(f"{name} cannot be created: {made.error_code}")


def produce(where: dict[str, list[int]], records: bytes) -> ProduceRequest:
    topics = [
        ProduceRequest.TopicProduceData(
            name=name, partition_data=[ProduceRequest.PartitionProduceData(index=n, records=records) for n in numbers]
        )
        for name, numbers in where.items()
    ]
    return ProduceRequest(acks=1, timeout_ms=30_000, topic_data=topics)


def offsets(bench: Bench) -> str:
    """Two clients ask for the committed offsets of 10,000 partitions."""
    client, numbers = Client(bench.address), range(MANY)
    bench.create("many", MANY)
    for _ in range(100):  # until there is a coordinator
        found = client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4).coordinators[0]
        commit = OffsetCommitRequest.OffsetCommitRequestPartition
        parts = [commit(partition_index=n, committed_offset=n) for n in numbers]
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="many", partitions=parts)
        answer = client.ask(OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, topics=[topic]), 8)
        if not found.error_code and not any(part.error_code for part in answer.topics[0].partitions):
            break
        time.sleep(0.2)
    wanted = OffsetFetchRequest.OffsetFetchRequestTopic(name="many", partition_indexes=list(numbers))
    return bench.many(2, OffsetFetchRequest(group_id="g", topics=[wanted]), 5)


def wide(bench: Bench) -> str:
    """One client produces to 10,000 partitions at once."""
    bench.create("many", MANY)
    record = build([(int(time.time() * 1000), None, b"v" * 100, ())])
    client, to_all = Client(bench.address), produce({"many": list(range(MANY))}, record)

    def taken() -> bool:
        return not any(part.error_code for part in client.ask(to_all, 9).responses[0].partition_responses)

    bench.cluster.wait_until(taken, "every partition has its leader")
    return bench.many(1, to_all, 9)


def unknown(bench: Bench) -> str:
    """One client fetches 100,000 partitions that are not there."""
    parts = [FetchRequest.FetchPartition(partition=n, partition_max_bytes=1000) for n in range(100_000)]
    return bench.many(
        1, FetchRequest(max_wait_ms=0, topics=[FetchRequest.FetchTopic(topic="none", partitions=parts)]), 12
    )


def bombs(bench: Bench) -> str:
    """Two clients produce batches of half a megabyte in gzip that unpack to half a gigabyte."""
    plain = bytearray(build([(1, None, b"", ())]))
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = b"".join([packer.compress(bytes(1 << 20)) for _ in range(512)] + [packer.flush()])
    bench.create("bombed", 1)
    struct.pack_into(">h", plain, 21, 1)
    whole = plain[:61] + packed
    struct.pack_into(">i", whole, 8, len(whole) - 12)
    struct.pack_into(">I", whole, 17, crc32c(memoryview(whole)[21:]))
    return bench.many(2, produce({"bombed": [0]}, bytes(whole)), 9)


def sparse(bench: Bench) -> str:
    """Two clients look for times in a log of a terabyte without indexes, nearly all of it holes."""
    bench.create("sparse", 1)
    bench.cluster.stop()
    folder = Path(bench.cluster.spec.nodes[0].folder) / "data" / "sparse-0"
    batch = build([(0, None, bytes(BATCH_BYTES - 80), ())])
    size, offset = len(batch), 0
    head = bytearray(batch[:4096])
    for _ in range(SEGMENTS):
        with open(folder / f"{offset:020}.log", "wb") as file:
            for place in range(0, SEGMENT_BYTES - size, size):
                struct.pack_into(">q", head, 0, offset)
                file.seek(place)
                file.write(head)
                offset += 1
            file.truncate(place + size)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        path = folder.parent / name
        lines = [line for line in path.read_text().splitlines()[2:] if not line.startswith("sparse ")]
        lines.append(f"sparse 0 {offset}")
        path.write_text("\n".join(["0", str(len(lines)), *lines]) + "\n")
    bench.cluster.start()
    part = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=1)
    return bench.many(
        2, ListOffsetsRequest(topics=[ListOffsetsRequest.ListOffsetsTopic(name="sparse", partitions=[part])]), 7
    )


def creation(bench: Bench) -> str:
    """One client creates a topic of 10,000 partitions, and deletes it."""
    client, made = Client(bench.address), 0
    with bench.beside():
        end = time.monotonic() + bench.seconds
        while time.monotonic() < end:
            bench.create(f"large-{made}", MANY)
            gone = DeleteTopicsRequest.DeleteTopicState(name=f"large-{made}")
            client.ask(DeleteTopicsRequest(topics=[gone], timeout_ms=60_000), 6)
            made += 1
    return f"{made} times"


def retention(bench: Bench) -> str:
    """Nobody asks: 2,000 logs of ten segments each lose nine of them to retention."""
    bench.create("old", 2_000)
    data = Path(bench.cluster.spec.nodes[0].folder) / "data"
    bench.cluster.wait_until(lambda: len(list(data.glob("old-*"))) == 2_000, "every partition has its log")
    bench.cluster.stop()
    for number in range(2_000):
        for offset in range(10):
            batch = bytearray(build([(1_000, None, b"v" * 100, ())], base_offset=offset, leader_epoch=0))
            (data / f"old-{number}" / f"{offset:020}.log").write_bytes(batch)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        lines = [line for line in (data / name).read_text().splitlines()[2:] if not line.startswith("old ")]
        lines += [f"old {number} 10" for number in range(2_000)]
        (data / name).write_text("\n".join(["0", str(len(lines)), *lines]) + "\n")
    bench.cluster.start()
    with bench.beside():
        end = time.monotonic() + 60
        while (left := sum(1 for _ in data.glob("old-*/*[0-9].log"))) > 2_000 and time.monotonic() < end:
            time.sleep(0.5)
    return f"{left} segments left"


def recovery(bench: Bench) -> str:
    """Nobody asks: another node of the cluster starts after kill -9 with gigabytes to recover."""
    node = bench.cluster.spec.nodes[-1]
    bench.create("large", LOGS, node.id)
    batch = build([(int(time.time() * 1000), None, b"v" * RECORD_BYTES, ()) for _ in range(900_000 // RECORD_BYTES)])
    parts = [TopicPartition("large", number) for number in range(LOGS)]
    with sync.Cluster(bench.cluster.bootstrap_servers) as client:
        for number in range(RECOVERED_BYTES // len(batch)):
            client.produce(parts[number % LOGS], batch)
    bench.cluster.kill(node.id)
    page = f"127.0.0.1:{nodes.free_ports(1)[0]}"
    with (Path(node.folder) / "server.properties").open("a") as settings:
        settings.write(f"http.listener={page}\n")
    bench.watched = len(bench.cluster.spec.nodes) - 1
    said = []
    with bench.beside(), sync.Cluster(bench.cluster.bootstrap_servers) as client:
        began, began_ms = time.monotonic(), time.time() * 1000

        def alive() -> bool:
            try:
                return bool(urllib.request.urlopen(f"http://{page}/livez", timeout=1).status == 200)
            except OSError:
                return False

        def seated() -> bool:
            _, quorum = client.run(admin.describe_quorum(client.client))
            voters = quorum.current_voters if quorum else []
            return any(one.replica_id == node.id and one.last_fetch_timestamp > began_ms for one in voters)

        bench.cluster.restart(node.id, wait=False)
        for what, condition in (("alive", alive), ("a seat in the quorum", seated)):
            bench.cluster.wait_until(condition, what)
            said.append(f"{what} after {time.monotonic() - began:.2f} s")
        for part in parts:
            client.produce(part, build([(0, None, b"", ())]))
        said.append(f"{RECOVERED_BYTES / 1e9:.0f} GB recovered and written to after {time.monotonic() - began:.2f} s")
    return ", ".join(said)


CASES: dict[str, Callable[[Bench], str]] = {
    "offsets": offsets, "wide": wide, "unknown": unknown, "bombs": bombs, "sparse": sparse, "creation": creation,
    "retention": retention, "recovery": recovery,
}  # fmt: skip
NODES = {"recovery": 3}
SETTINGS = {"offsets.topic.num.partitions": "1", "log.retention.check.interval.ms": "12000"}


def started(case: str, folder: str) -> Cluster:
    """A cluster for a case, to be entered."""
    return Cluster(brokers=NODES.get(case, 1), data=folder, config=SETTINGS)


def main() -> int:
    ask = argparse.ArgumentParser(description="Measure what one greedy client costs a quiet one.")
    ask.add_argument("--only", nargs="+", choices=CASES, metavar="CASE", help=f"some of: {', '.join(CASES)}")
    ask.add_argument("--seconds", type=float, default=8.0, help="how long each half of a case is measured")
    wish = ask.parse_args()
    print("| case | p50 idle | beside | p99 idle | beside | p99 x idle | longest | MB before | most | |")
    for case in wish.only or CASES:
        with tempfile.TemporaryDirectory() as folder, started(case, folder) as cluster:
            bench = Bench(cluster, wish.seconds)
            bench.create(QUIET, 1, cluster.spec.nodes[0].id)
            said = CASES[case](bench)
            print(f"| {case} | {bench.row} | {said} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
