"""Random requests, whole and broken, to every listener: pipelined, half sent, never read, byte by byte."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from random import Random
from typing import Any

from moldau.broker.api import CONTROLLER
from moldau.wire.codec import Malformed
from moldau.wire.frames import request_frame
from tests.fuzz.messages import FAR, Facts, message, mutated
from tests.fuzz.target import TOPICS, Line, Target

SPEAKS_FOR = frozenset({62, 63, 64})
"""Registers a broker, lets it live, or takes it out of the cluster, by right: only ids that are nobody's are drawn."""
NOBODY = (-(1 << 31), -1, 99, (1 << 31) - 1)
STOPS = frozenset({5, 7})
"""Stop a replica, or a broker, by right, when they name the present controller's or broker's epoch."""
EPOCHS = frozenset({1, 52, 53, 54, 59})
"""Whose epochs count among controllers: one that is far beyond the present would be the last for ever."""
WAIT_S = 0.2


class FrameFuzzer:
    """One round is a connection, or a few, with some requests."""

    def __init__(self, target: Target, rng: Random) -> None:
        self.target = target
        self.rng = rng
        self.facts = _facts(target)
        self._held: list[socket.socket] = []

    def round(self) -> int:
        """Send some requests; how many."""
        kind, address = self.rng.choice(self.target.listeners())
        how = self.rng.choices((self._one, self._pipelined, self._unread, self._slow, self._noise), (8, 4, 1, 1, 2))[0]
        with suppress(OSError):
            return how(kind, address)
        return 1

    def close(self) -> None:
        while self._held:
            self._held.pop().close()

    def _frame(self, kind: str) -> bytes:
        while True:
            key, version = self.rng.choice(self.target.requests(kind))
            if key in STOPS:
                continue
            request: Any = message(self.rng, key, version, self._facts_for(key, kind))
            if key in SPEAKS_FOR:
                request.broker_id = self.rng.choice(NOBODY)
            with suppress(Malformed, struct.error, ValueError, OverflowError, TypeError, AttributeError):
                return b"".join(request_frame(request, version, self.rng.randrange(1 << 31), "fuzz"))

    def _facts_for(self, key: int, kind: str) -> Facts:
        facts = dict(self.facts)
        if kind == CONTROLLER and key in EPOCHS:
            near = [-1, 0, 1, 2, self.rng.randrange(FAR)]
            facts |= dict.fromkeys(("candidate_epoch", "leader_epoch", "replica_epoch", "current_leader_epoch"), near)
        return facts

    def _one(self, kind: str, address: tuple[str, int]) -> int:
        frame = self._frame(kind)
        if self.rng.random() < 0.5:
            frame = mutated(self.rng, frame)
        with Line(address, WAIT_S) as line:
            line.socket.sendall(frame)
            line.frame()
        return 1

    def _pipelined(self, kind: str, address: tuple[str, int]) -> int:
        frames = [self._frame(kind) for _ in range(self.rng.randrange(2, 60))]
        with Line(address, WAIT_S) as line:
            line.socket.sendall(b"".join(frames))
            if self.rng.random() < 0.7:
                for _ in frames:
                    line.frame()
        return len(frames)

    def _unread(self, kind: str, address: tuple[str, int]) -> int:
        """A client that asks and does not read; it stays for a while."""
        line = socket.create_connection(address, WAIT_S)
        self._held.append(line)
        if len(self._held) > 20:
            self._held.pop(self.rng.randrange(len(self._held))).close()
        count = self.rng.randrange(1, 200)
        line.sendall(self._frame(kind) * count)
        return count

    def _slow(self, kind: str, address: tuple[str, int]) -> int:
        frame = self._frame(kind)[:40]
        with Line(address, WAIT_S) as line:
            for at in range(len(frame)):
                line.socket.sendall(frame[at : at + 1])
        return 1

    def _noise(self, kind: str, address: tuple[str, int]) -> int:
        sizes = (0, 4, 7, 100, 70_000)
        head = struct.pack(">i", self.rng.choice((-1, 0, 7, 100, 1 << 20, 100_000_000, (1 << 31) - 1)))
        with Line(address, WAIT_S) as line:
            line.socket.sendall(head + self.rng.randbytes(self.rng.choice(sizes)))
            line.frame()
        return 1


def _facts(target: Target) -> dict[str, list[Any]]:
    """Names and numbers that exist, for the fields that are called so; nothing of the witness's."""
    names = list(TOPICS)
    known = target.cluster.client().topics(names)
    ids = [topic.topic_id for topic in known.values()]
    nodes = [node.id for node in target.cluster.spec.nodes]
    small = [0, 1, 2, 3]
    quorum = ["__cluster_metadata"]
    return {
        **dict.fromkeys(("name", "topic", "topic_name", "topic_names"), [*names, *names, *quorum, "fuzz-new"]),
        **dict.fromkeys(("group_id", "groups", "groups_names", "coordinator_keys", "key"), ["fuzz-group", "g2", ""]),
        "topic_id": ids,
        "cluster_id": [target.cluster.cluster_id, None, "wrong"],
        **dict.fromkeys(("partition_index", "partition", "index", "partition_indexes", "partitions"), small),
        **dict.fromkeys(("replica_id", "broker_id", "leader_id", "candidate_id", "voter_id"), [*nodes, -1, 99]),
        **dict.fromkeys(("leader_epoch", "current_leader_epoch"), [-1, 0, 1, 2]),
        **dict.fromkeys(("max_bytes", "partition_max_bytes"), [0, 1, 1 << 20, 1 << 26]),
        **dict.fromkeys(("timeout_ms", "max_wait_ms"), [0, 1, 100, 30_000]),
        "session_timeout_ms": [6_000, 10_000],
        "protocol_type": ["consumer", ""],
        "acks": [-1, 0, 1],
        "transactional_id": [None, "txn"],
        "resource_type": [2, 4, 8, 16, 32],
        "resource_name": [*names, "1", ""],
        "num_partitions": [-1, 1, 3],
        "replication_factor": [-1, 1, 3],
        "count": [1, 4, 5],
        "timestamp": [-3, -2, -1, 0, 1_700_000_000_000],
        "fetch_offset": [-1, 0, 1, 50],
        "offset": [-1, 0, 10],
        "validate_only": [True, False],
        "feature_updates": [],
    }
