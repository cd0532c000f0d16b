"""Laws of topics of which only each key's newest record stays: S5 (no key's newest is lost), S6 (nothing else changes).

``entries`` stand here for the batches of ``data.py``: replicas compact alone, so they agree record by record, and each
may lack what is replaced. ``CompactionLaws`` sees each compaction as it is put in place, from outside, and compares the
log before and after: offsets stay, nothing above the watermark replaces anything, a tombstone goes only when its time
(KIP-534) is over. Read next: ``history/checks.py``, what clients of such a topic were promised.
"""

from __future__ import annotations

import contextvars
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple
from zlib import crc32

from moldau.broker.controller.topic_creation import OFFSETS
from moldau.broker.node import Node
from moldau.model import TopicPartition
from moldau.simulator.cluster_observer import ClusterObserver
from moldau.simulator.laws.decisions import CONTROL, Decisions
from moldau.storage import CorruptLog, Log
from moldau.storage.compaction import Compaction
from moldau.storage.raw_records import raw_records
from moldau.storage.swap import Steps
from moldau.wire import batch

SHOWN = 3
BATCHES = 4096
"""How many batches' records are kept for the next look: more than the logs of one run have at a time."""


class LogEntry(NamedTuple):
    """One record as it stands in a log. ``crc`` covers key, value and headers: a timestamp is rewritten (KIP-534)."""

    base: int
    last: int
    epoch: int
    crc: int
    key: bytes
    tombstone: bool


def walk(log: Any, start: int, end: int) -> Iterator[tuple[Any, bytes]]:
    """(header, bytes) of each batch from ``start`` to ``end``; up to bytes that are named as corrupt."""
    while start < end:
        try:
            data = bytes(log.read(start, 1 << 30, up_to=end))  # of one segment
        except CorruptLog:
            return
        after = start
        for position, header in batch.headers(data):
            yield header, data[position : position + 12 + header.length]
            after = header.last_offset + 1
        if after == start:
            return
        start = after


def entries(log: Any, start: int, end: int) -> list[LogEntry]:  # Any: of a real node, looked at from outside
    """The records of a log from ``start`` to ``end``."""
    return [entry for _, raw in walk(log, start, end) for entry in _records(raw) if entry.base >= start]


@lru_cache(BATCHES)
def _records(raw: bytes) -> tuple[LogEntry, ...]:
    """The records of a batch. Logs are read before and after each step of a compaction, and each replica's has the same
    bytes: of a hundred batches that are asked for, ninety-nine are known."""
    header = batch.read_header(raw)
    if header.attributes & CONTROL or not header.count:
        return ()
    _, data = batch.payload(raw)
    found = []
    for record in raw_records(data, header.count):
        offset = header.base_offset + record.offset_delta
        crc = crc32(data[record.delta_end : record.end])
        found.append(LogEntry(offset, offset, header.leader_epoch, crc, record.key or b"", record.tombstone))
    return tuple(found)


def newest(held: Iterable[LogEntry]) -> dict[bytes, LogEntry]:
    """The last record of each key."""
    return {entry.key: entry for entry in held}


def wanted(committed: Iterable[LogEntry], last: dict[bytes, LogEntry], *, tombstones: bool) -> list[LogEntry]:
    """What every replica must hold of ``committed``; ``last`` is each key's newest of all that was ever committed."""
    return [one for one in committed if last[one.key] is one and (tombstones or not one.tombstone)]


class CompactionSight(NamedTuple):
    """A log at one moment: records, when the tombstones of each batch may go, its start and end, its transactions."""

    held: dict[int, LogEntry]
    horizons: dict[int, int | None]
    bounds: tuple[int, int]
    decisions: Decisions


def sight(log: Any) -> CompactionSight:  # Any: of a real node, looked at from outside
    """All of a log."""
    found: dict[int, LogEntry] = {}
    horizons: dict[int, int | None] = {}
    decisions = Decisions()
    for header, raw in walk(log, log.log_start_offset, log.log_end_offset):
        decisions.take(header, raw)
        for entry in _records(raw):
            found[entry.base] = entry
            horizons[entry.base] = header.delete_horizon_ms
    return CompactionSight(found, horizons, (log.log_start_offset, log.log_end_offset), decisions)


class CompactionLaws:
    """``look`` between turns; ``coverage``: what compactions did."""

    def __init__(self, observer: ClusterObserver) -> None:
        self._observer = observer
        self.coverage: set[str] = set()
        self._nodes: dict[int, Node] = {}

    def look(self) -> None:
        """Follow every new life of a node."""
        for id, node in self._observer.nodes():
            data = getattr(node, "data", None)
            if self._nodes.get(id) is not node and data is not None:
                self._nodes[id] = node
                self._follow(id, data.log_dirs)

    def _follow(self, id: int, dirs: Any) -> None:
        begin, end = dirs.compactions.begin, dirs.compactions.end
        planned_ms: dict[TopicPartition, int] = {}

        def planned(log: Any, now_ms: int) -> Any:
            planned_ms[log.partition] = now_ms
            return begin(log, now_ms)

        def ended(log: Log, compaction: Compaction, now_ms: int) -> Steps:
            """Each step as it is done: between two the loop turns, and others change the log."""
            steps = end(log, compaction, now_ms)
            saved, sync = 0, None
            while True:
                before = self._sight(log)
                try:
                    sync = next(steps)
                except StopIteration as over:
                    saved, sync = over.value, None
                after = self._sight(log)
                name = f"n{id}, {log.partition}"
                planned = planned_ms[log.partition]
                for law in check(before, after, planned, log.config.delete_retention_ms, log.high_watermark):
                    self._observer.cluster.violated(f"{law.partition(':')[0]}: {name}: {law.partition(': ')[2]}")
                self._note(log.partition.topic, before, after)
                if sync is None:
                    return saved
                yield sync

        dirs.compactions.begin, dirs.compactions.end = planned, ended

    def _sight(self, log: Any) -> CompactionSight:  # Any: of a real node, looked at from outside
        return contextvars.Context().run(sight, log)  # outside every process: a checker reads a failing disk as it is

    def _note(self, topic: str, before: CompactionSight, after: CompactionSight) -> None:
        gone = [before.held[offset] for offset in before.held if offset not in after.held]
        if gone:
            self.coverage.add("a log of groups was compacted" if topic == OFFSETS else "a log was compacted")
        last = newest(before.held.values())
        if any(last[one.key] is one for one in gone):
            self.coverage.add("a tombstone went")


def check(before: CompactionSight, after: CompactionSight, planned_ms: int, retention_ms: int, high: int) -> list[str]:
    """S5, S6: what one compaction may do to a log; ``high`` is its watermark, ``planned_ms`` when it began."""
    broken = []
    if before.bounds != after.bounds:
        broken.append(f"S6: a compaction moved start and end from {before.bounds} to {after.bounds}")
    broken += [
        f"S6: a compaction made {one} of {before.held.get(offset)}"
        for offset, one in after.held.items()
        if before.held.get(offset) != one
    ]
    stable = before.decisions.stable_offset(high)
    counts = [one for one in before.held.values() if one.base < stable and not before.decisions.is_aborted(one.base)]
    last = newest(counts)
    for offset, one in before.held.items():
        if offset in after.held or last.get(one.key, one).base > offset or before.decisions.is_aborted(offset):
            continue
        time_ms = before.horizons[offset]
        if not one.tombstone or time_ms is None or time_ms > planned_ms:
            when = f", which may go at {time_ms}, at {planned_ms}" if one.tombstone else ""
            broken.append(f"S5: a compaction took {one}{when}: nothing committed is newer")
    for offset, time_ms in after.horizons.items():
        if time_ms != before.horizons.get(offset, time_ms) and (time_ms or 0) < planned_ms + retention_ms:
            broken.append(
                f"S5: tombstones at {offset} may go at {time_ms}, {retention_ms} ms after {planned_ms} at least"
            )
    return [*broken[:SHOWN], *markers_gone(before.decisions, after.decisions, planned_ms)[:SHOWN]]


def markers_gone(before: Decisions, after: Decisions, planned_ms: int) -> list[str]:
    """S17: a marker outlasts the records of its transaction, and then the time that it was given (KIP-534)."""
    broken = []
    for marker in before.markers.keys() - after.markers.keys():
        horizon_ms, had = before.markers[marker]
        if had:
            broken.append(f"S17: a compaction took the marker at {marker}, of whose transaction records were there")
        elif horizon_ms is None or horizon_ms > planned_ms:
            broken.append(f"S17: a compaction took the marker at {marker} at {planned_ms}: it may go at {horizon_ms}")
    return broken
