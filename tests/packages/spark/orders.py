"""The topic that the readers' tests read, in memory, and the options with which they do."""

from __future__ import annotations

from moldau.spark.options import parse
from moldau.spark.readers import StreamReader
from moldau.spark.testing import MemoryCluster

BASE = {"kafka.bootstrap.servers": "memory:1", "subscribe": "orders", "fetchOffset.retryIntervalMs": "0"}


def orders() -> MemoryCluster:
    """A cluster in memory whose topic ``orders`` has two partitions."""
    cluster = MemoryCluster()
    cluster.create("orders", 2)
    return cluster


def stream_reader(cluster: MemoryCluster, **given: str) -> StreamReader:
    return StreamReader(parse({**BASE, "startingOffsets": "earliest", **given}, "stream"), cluster.open)
