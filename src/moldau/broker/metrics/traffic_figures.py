"""Traffic under the names of Kafka's dashboards: bytes by topic, requests, errors and times by API, who waits.

Made from the counts of ``moldau.broker.network.traffic`` when somebody asks. What Kafka tells in rates is told as
totals, from which a dashboard makes rates of any length. Read next: ``figures.py``.
"""

from __future__ import annotations

from collections.abc import Iterator

from moldau.broker.metrics.reported import Reported
from moldau.broker.metrics.text import Family
from moldau.broker.replicas.manager import ReplicaManager
from moldau.model import Code

QUANTILES = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
_TOPICS, _REQUESTS = "kafka_server_brokertopicmetrics_", "kafka_network_requestmetrics_"
_WAITING = ("Produce", "Fetch", "DeleteRecords")


def topics(replicas: ReplicaManager) -> Iterator[Family]:
    """Bytes and records, of all topics together (no label) and of each; and how many wait."""
    total = replicas.traffic.total()
    for name, help, count in (
        ("messagesin_total", "Records appended by clients.", "records_in"),
        ("bytesin_total", "Bytes appended by clients.", "bytes_in"),
        ("bytesout_total", "Bytes of records given to consumers.", "bytes_out"),
        ("replicationbytesin_total", "Bytes fetched from leaders.", "replicated_in"),
        ("replicationbytesout_total", "Bytes of records given to followers.", "replicated_out"),
    ):
        family = Family(_TOPICS + name, help, getattr(total, count))
        for topic, one in sorted(replicas.traffic.by_topic.items()):
            family.add(getattr(one, count), topic=topic)
        yield family
    failed = "failed{}requests_total", "Partitions of {} requests that were refused."
    for kind, value in (("produce", replicas.failed_produces), ("fetch", replicas.failed_fetches)):
        yield Family(_TOPICS + failed[0].format(kind), failed[1].format(kind), value)
    waiting = Family("kafka_server_delayedoperationpurgatory_purgatorysize", "Requests that wait to be answered.")
    kinds = replicas.purgatory.kinds()
    for kind in _WAITING:
        waiting.add(kinds[kind], delayedOperation=kind)
    yield waiting


def requests(node: Reported) -> Iterator[Family]:
    """What was asked at each listener, how it went and how long it took."""
    count = Family(_REQUESTS + "requests_total", "Requests by API and listener.")
    errors = Family(_REQUESTS + "errors_total", "Answers whose own code, not one of their items', is an error.")
    help = "Milliseconds to an answer, waiting included: quantiles of the last minute or two, and all since the start."
    times = Family(_REQUESTS + "totaltimems", help, summary=True)
    now_ms = node.world.clock.monotonic_ms()
    for socket_listener in node.listeners:
        for stats in sorted(socket_listener.stats.by_key.values(), key=lambda one: one.name):
            where = {"request": stats.name, "listener": socket_listener.name}
            count.add(stats.requests, **where)
            times.add(sum(stats.buckets), "_count", **where)
            times.add(stats.total_ms, "_sum", **where)
            for code, times_seen in sorted(stats.errors.items()):
                errors.add(times_seen, **where, error=Code(code).name)
            for share, bound in zip(QUANTILES, stats.quantiles(now_ms, *QUANTILES), strict=True):
                times.add(bound, **where, quantile=share)
    return iter((count, errors, times))
