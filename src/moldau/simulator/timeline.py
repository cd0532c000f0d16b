"""A run as a table: who lived, who ruled, who led, whenever that changed. For people who learn from a run."""

from __future__ import annotations

from moldau.simulator.cluster import Seat
from moldau.simulator.looking import Eyes

ROWS_MAX = 40
SETTLE_S = 0.3
"""Changes closer together than this are one row: what came of them."""
LEGEND = (
    "nodes: up, starting, paused, dead; * rules (the active controller). Partitions: who leads, and who is in sync"
    " (ISR) as digits; - where nobody leads."
)


class Timeline:
    """``note`` as time goes by; ``lines`` at the end."""

    def __init__(self, eyes: Eyes, topic: str) -> None:
        self._eyes, self._topic = eyes, topic
        self._rows: list[tuple[float, tuple[str, ...]]] = []

    def note(self, now_s: float) -> None:
        """Remember how things stand, if that is new."""
        rules = self._eyes.controllers[-1][0] if self._eyes.controllers else None
        nodes = [
            _state(seat) + ("*" if seat.id == rules and seat.owner is not None else "")
            for seat in self._eyes.cluster.seats.values()
        ]
        topic = self._eyes.image.topic(self._topic)
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
        seats = list(self._eyes.cluster.seats.values())
        names = [seat.host for seat in seats] + [f"{self._topic}-{n}" for n in range(width - len(seats))]
        kept = self._rows[:: 1 + len(self._rows) // ROWS_MAX]
        table = [("seconds", *names), *((f"{at:.1f}", *row, *[""] * (width - len(row))) for at, row in kept)]
        wide = [max(len(row[column]) for row in table) for column in range(width + 1)]
        shown = ["  ".join(cell.ljust(size) for cell, size in zip(row, wide, strict=True)).rstrip() for row in table]
        return [*shown, LEGEND]


def _state(seat: Seat) -> str:
    if seat.owner is None:
        return "dead"
    if seat.owner.paused:
        return "paused"
    return "up" if seat.serves else "starting"
