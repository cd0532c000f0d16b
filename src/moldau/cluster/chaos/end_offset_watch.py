"""A thread that asks leaders, again and again, where their partitions end, and writes down what each says.

Every answer comes from one attempt on one connection. Judges nothing: ``moldau.history.shown`` does.
"""

from __future__ import annotations

import contextlib
import threading
import time

from moldau.client import sync
from moldau.client.client import ClientOptions, Refused, Unreachable
from moldau.client.lines import ConnectionOptions
from moldau.client.reading import LATEST
from moldau.history.shown import Shown
from moldau.model import Code, TopicPartition

_PAUSE_S = 0.05


class EndOffsetWatch(threading.Thread):
    """Start, stop, and read ``rows``."""

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int) -> None:
        super().__init__(name="watch", daemon=True)
        self.rows: list[Shown] = []
        self._bootstrap_servers = bootstrap_servers
        self._asked = [TopicPartition(topic, number) for number in range(partitions)]
        self._over = threading.Event()

    def run(self) -> None:
        connection = ConnectionOptions(client_id="chaos-watch", request_timeout_ms=1_000, connect_timeout_ms=1_000)
        options = ClientOptions(api_timeout_ms=2_000)
        with sync.Cluster(self._bootstrap_servers, connection=connection, options=options) as cluster:
            while not self._over.wait(_PAUSE_S):
                for partition in self._asked:
                    with contextlib.suppress(OSError, Refused, Unreachable):
                        self._ask(cluster, partition)

    def stop(self) -> None:
        self._over.set()
        self.join()

    def _ask(self, cluster: sync.Cluster, partition: TopicPartition) -> None:
        invoke_ns = time.monotonic_ns()
        answer = cluster.offsets({partition: LATEST})[partition]
        if answer.code is Code.NONE and answer.offset >= 0:
            row = Shown(partition.partition, answer.leader_epoch, answer.offset, invoke_ns, time.monotonic_ns())
            self.rows.append(row)
