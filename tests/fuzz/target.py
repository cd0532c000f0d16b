"""The cluster that is fuzzed, its witness, and what must hold of it: every process lives and answers, nothing is lost.

A node may end only where a rule of a kind says so (``Ended``). Its words are looked through for what no node should
ever say. Read next: ``__main__.py``.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from moldau import Cluster
from moldau.broker.api import ANSWERS, BROKER, CONTROLLER, ZOOKEEPER
from moldau.cluster.cluster import ClusterError
from moldau.cluster.nodes import is_alive
from moldau.model import TopicPartition
from moldau.wire.batch import build
from moldau.wire.frames import read_response_body, request_frame
from moldau.wire.schema import Message
from tests.fuzz.witness import TOPIC

PARTITIONS = 3
WITNESS_CONFIG = {
    "cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1", "min.insync.replicas": "2",
    "unclean.leader.election.enable": "false", "max.message.bytes": "1048588", "compression.type": "producer",
    "message.timestamp.type": "CreateTime", "message.timestamp.before.max.ms": str((1 << 63) - 1),
    "message.timestamp.after.max.ms": str((1 << 63) - 1), "segment.bytes": "1048576",
    "flush.messages": str((1 << 63) - 1),
}  # fmt: skip
"""The witness's topic has settings of its own, so that none of the cluster's that is drawn is about it."""
TOPICS = {
    "fuzz-plain": {"segment.bytes": "1048576"},
    "fuzz-compact": {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01"},
    "fuzz-stamped": {"message.timestamp.type": "LogAppendTime", "compression.type": "gzip"},
}
CONFIG = {
    "log.cleaner.backoff.ms": "1000", "log.retention.check.interval.ms": "2000", "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0", "auto.create.topics.enable": "false",
    "log.segment.delete.delay.ms": "1000",    "num.partitions": "1", "broker.session.timeout.ms": "20000",
}  # fmt: skip
BATCHES = 8
"""How many batches of 0.4 MB each fuzzed partition has at first; a segment is 1 MiB."""
BAD_WORDS = ("FATAL", "AssertionError", "MemoryError", "RecursionError")
SERVE_S = 180.0


class Found(AssertionError):
    """What must not be: the text says what, of which node, and what it said last."""


class Line:
    """A raw connection to one listener."""

    def __init__(self, address: tuple[str, int], timeout_s: float = 10.0) -> None:
        self.socket = socket.create_connection(address, timeout_s)
        self._ids = itertools.count(1)

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, message: Message, version: int) -> Message:
        """The answer; OSError when there is none."""
        id = next(self._ids)
        self.socket.sendall(b"".join(request_frame(message, version, id, "fuzz")))
        frame = self.frame()
        assert message.api_key >= 0
        return read_response_body(memoryview(frame), message.api_key, version)

    def frame(self) -> bytes:
        """The next answer's frame, without its size."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        parts, got = [], 0
        while got < size:
            part = self.socket.recv(min(size - got, 1 << 20))
            if not part:
                raise ConnectionError("closed by the node")
            parts.append(part)
            got += len(part)
        return b"".join(parts)


class Target:
    """Three nodes, the topics that are fuzzed, and the witness beside them."""

    def __init__(self, folder: Path, rng: Random, *, plane: str = "quorum", nodes: int = 3) -> None:
        self.rng = rng
        self.plane = plane
        self.cluster = Cluster(nodes, mode=plane, data=folder, config=CONFIG)
        self.rss_mib = 0
        self._read: dict[Path, int] = {}
        self._witness: subprocess.Popen[str] | None = None

    def __enter__(self) -> Target:
        os.environ.setdefault("MOLDAU_SLOW_STEP_MS", "100")  # nodes say themselves what held them
        self.cluster.start()
        self._note_pids()
        copies = len(self.cluster.spec.nodes)
        for name, config in ({TOPIC: WITNESS_CONFIG} | TOPICS).items():
            more = {"min.insync.replicas": str(min(2, copies))} if name == TOPIC else {}
            self.cluster.create_topic(name, partitions=PARTITIONS, replication_factor=copies, config=config | more)
        self.cluster.wait_until_in_sync()
        self._fill()
        self._start_witness()
        return self

    def __exit__(self, *_: object) -> None:
        if self._witness is not None:
            self._witness.kill()
            self._witness.wait()
        self.cluster.close()

    def _fill(self) -> None:
        """Give every fuzzed partition some sealed segments."""
        now_ms = int(time.time() * 1000)
        batch = build([(now_ms, b"%d" % (key % 50), bytes(1000), []) for key in range(400)])
        for name in TOPICS:
            for partition in range(PARTITIONS):
                for _ in range(BATCHES):
                    self.cluster.client().produce(TopicPartition(name, partition), batch)

    # ---- the witness

    def _start_witness(self) -> None:
        nodes = [f"{n.id},127.0.0.1,{n.port},{self.pid_file(n.id)}" for n in self.cluster.spec.nodes]
        command = [sys.executable, "-m", "tests.fuzz.witness", self.cluster.bootstrap_servers, str(PARTITIONS), *nodes]
        self._witness = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def pid_file(self, id: int) -> Path:
        return Path(self.cluster.node(id).folder) / "pid"

    def _note_pids(self) -> None:
        for node in self.cluster.spec.nodes:
            self.pid_file(node.id).write_text(str(node.pid))

    def testimony(self) -> dict[str, Any]:
        """What the witness says at its end; Found when it is not that all is well."""
        self.settle()
        assert self._witness is not None
        said, _ = self._witness.communicate("", timeout=600)
        found: dict[str, Any] = json.loads(said.splitlines()[-1])
        if found["lost"] or found["twice"]:
            raise Found(f"acknowledged records are lost or doubled: {found}")
        return found

    # ---- addresses

    def listeners(self) -> list[tuple[str, tuple[str, int]]]:
        """(kind, address) of every listener."""
        found: list[tuple[str, tuple[str, int]]] = []
        for node in self.cluster.spec.nodes:
            found.append((ZOOKEEPER if self.plane == "zookeeper" else BROKER, ("127.0.0.1", node.port)))
            if node.controller_port:
                found.append((CONTROLLER, ("127.0.0.1", node.controller_port)))
        return found

    def requests(self, kind: str) -> list[tuple[int, int]]:
        """Every (api key, version) that a kind of listener serves."""
        return [(one.key, version) for one in ANSWERS[kind].values() for version in range(one.low, one.high + 1)]

    def leader_address(self, topic: str, partition: int) -> tuple[str, int]:
        return "127.0.0.1", self.cluster.node(self.cluster.leader(topic, partition)).port

    # ---- nodes

    def kill(self, id: int) -> None:
        self.pid_file(id).write_text("")
        self.cluster.kill(id)

    def stop(self, id: int) -> None:
        self.pid_file(id).write_text("")
        self.cluster.terminate(id)

    def launch(self, id: int) -> None:
        """Start a node and wait for nothing."""
        self.cluster.restart(id, wait=False)
        self.pid_file(id).write_text(str(self.cluster.node(id).pid))

    def settle(self) -> None:
        """Wait until every node serves and the witness's topic is in sync; Found when that does not come."""
        try:
            self.cluster.wait_for_brokers([n.id for n in self.cluster.spec.nodes], SERVE_S)
            self.until(self._in_sync, "the witness's topic is in sync")
        except ClusterError as error:
            raise Found(f"{error}\n{self.words()}") from error

    def _in_sync(self) -> bool:
        topic = self.cluster.client().topics()[TOPIC]
        return all(set(p.isr) == set(p.replicas) for p in topic.partitions.values())

    def until(self, done: Callable[[], bool], what: str, timeout_s: float = SERVE_S) -> None:
        """Wait for a condition; Found when it does not come about."""
        deadline = time.monotonic() + timeout_s
        while True:
            with suppress(ClusterError, OSError, LookupError):
                if done():
                    return
            if time.monotonic() > deadline:
                raise Found(f"not within {timeout_s:.0f} s: {what}\n{self.words()}")
            time.sleep(0.05)

    # ---- what must hold

    def check(self) -> None:
        """Every node lives and has said nothing that none should; memory is noted."""
        for node in self.cluster.spec.nodes:
            if not is_alive(node.pid):
                raise Found(f"node {node.id} is dead\n{self.words(node.id)}")
            for line in self._new_lines(Path(node.logs)):
                if any(word in line for word in BAD_WORDS):
                    raise Found(f"node {node.id} said: {line[:500]}\n{self.words(node.id)}")
            with suppress(OSError, StopIteration):
                status = Path(f"/proc/{node.pid}/status").read_text().splitlines()
                rss_kib = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
                self.rss_mib = max(self.rss_mib, rss_kib // 1024)

    def forget(self, id: int) -> None:
        """Pass over what a node has said so far: it was to be expected."""
        for _ in self._new_lines(Path(self.cluster.node(id).logs)):
            pass

    def _new_lines(self, logs: Path) -> Iterator[str]:
        for name in ("out.log", "server.log"):
            file = logs / name
            with suppress(OSError), file.open(errors="replace") as text:
                if file.stat().st_size < self._read.get(file, 0):
                    self._read[file] = 0  # it was rotated
                text.seek(self._read.get(file, 0))
                yield from text.read().splitlines()
                self._read[file] = text.tell()

    def words(self, *ids: int) -> str:
        """The last that nodes said."""
        parts = []
        for node in self.cluster.spec.nodes:
            if not ids or node.id in ids:
                for name in ("out.log", "server.log"):
                    with suppress(OSError):
                        tail = (Path(node.logs) / name).read_text(errors="replace").splitlines()[-25:]
                        parts += [f"--- node {node.id}, {name}", *(line[:300] for line in tail)]
        return "\n".join(parts)
