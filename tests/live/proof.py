"""Nothing acknowledged is lost: load on a topic while a test does something to the cluster, and the judgement of it.

The load and the rules are the kill suite's (``moldau.cluster.kills``): idempotent producers with acks=all, a reader who
follows, and every record read once more at the end. What is done meanwhile is the test's business.
"""

from __future__ import annotations

import time

from kafka_peer import wait_until

from moldau import Cluster
from moldau.cluster.kills.load import LoadPlan, ProducerLoad, high_watermarks, read_all
from moldau.history import checks
from moldau.history.rows import History

IMPATIENT = {"socket.timeout.ms": 5_000, "request.timeout.ms": 5_000}
"""A request to a broker that stands still is given up after this; librdkafka's own patience is a minute."""


class Proof:
    """Load on one topic, from ``with`` to its end, where every rule is checked."""

    def __init__(
        self, cluster: Cluster, topic: str, partitions: int, rate_per_s: float = 150, value_bytes: int = 100
    ) -> None:
        self._cluster = cluster
        self._plan = LoadPlan(topic, partitions, 2, rate_per_s, value_bytes, IMPATIENT)
        self._load = ProducerLoad(cluster.bootstrap_servers, self._plan)

    def __enter__(self) -> Proof:
        self._load.start()
        self.flows("the topic is written to")
        return self

    def flows(self, what: str, timeout_s: float = 120) -> None:
        """Wait until every partition has acknowledged something that was sent after this call."""
        now_ns = time.monotonic_ns()
        wait_until(lambda: self._load.acked_since(now_ns), f"writes go on: {what}", timeout_s)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._load.stop()
        if kind is not None:
            return
        ends = high_watermarks(self._cluster.bootstrap_servers, self._plan)
        final = read_all(self._cluster.bootstrap_servers, self._plan, ends)
        history = History(self._load.sends(), self._load.follower.reads, final, ends, [])
        assert not self._load.broken()
        found = checks.check(history)
        assert not found, "\n".join(f"{one.kind}: {one.text}" for one in found[:20])
        assert history.acked == len(history.sends) > 0, "every write was acknowledged in the end"
