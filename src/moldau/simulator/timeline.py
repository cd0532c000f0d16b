"""Prints a run as a table: which nodes lived, which was controller, which led, whenever that changed."""

from __future__ import annotations

from moldau.simulator.cluster import SimulatedHost
from moldau.simulator.cluster_observer import ClusterObserver

ROWS_MAX = 40
SETTLE_S = 0.3
"""Changes closer together than this are one row: what came of them."""
LEGEND = (
    "nodes: up, starting, paused, dead; * rules (the active controller). Partitions: who leads, and who is in sync"
    " (ISR) as digits; - where nobody leads."
)


class Timeline:
    """``note`` as time goes by; ``lines`` at the end."""

    def __init__(self, observer: ClusterObserver, topic: str) -> None:
        self._observer, self._topic = observer, topic
        self._rows: list[tuple[float, tuple[str, ...]]] = []

    def note(self, now_s: float) -> None:
        """Remember how things stand, if that is new."""
        rules = self._observer.controllers[-1][0] if self._observer.controllers else None
        nodes = [
            _state(host) + ("*" if host.id == rules and host.owner is not None else "")
            for host in self._observer.cluster.hosts.values()
        ]
        topic = self._observer.image.topic(self._topic)
        partitions = [] if topic is None else [
            f"n{p.leader} of {''.join(map(str, sorted(p.isr)))}" if p.leader >= 0 else "-"
            for _, p in sorted(topic.partitions.items())
        ]  # fmt: skip
        row = (*nodes, *partitions)
        if self._rows and now_s - self._rows[-1][0] < SETTLE_S and len(self._rows[-1][1]) == len(row):
            self._rows[-1] = (self._rows[-1][0], row)
        elif not self._rows or self._rows[-1][1] != row:
            self._rows.append((now_s, row))

    def lines(self) -> list[str]:
        """The table, evenly thinned when it is too long, with its legend."""
        if not self._rows:
            return []
        width = max(len(row) for _, row in self._rows)
        hosts = list(self._observer.cluster.hosts.values())
        names = [host.hostname for host in hosts] + [f"{self._topic}-{n}" for n in range(width - len(hosts))]
        kept = self._rows[:: 1 + len(self._rows) // ROWS_MAX]
        table = [("seconds", *names), *((f"{at:.1f}", *row, *[""] * (width - len(row))) for at, row in kept)]
        wide = [max(len(row[column]) for row in table) for column in range(width + 1)]
        shown = ["  ".join(cell.ljust(size) for cell, size in zip(row, wide, strict=True)).rstrip() for row in table]
        return [*shown, LEGEND]


def _state(host: SimulatedHost) -> str:
    if host.owner is None:
        return "dead"
    if host.owner.paused:
        return "paused"
    return "up" if host.serves else "starting"
