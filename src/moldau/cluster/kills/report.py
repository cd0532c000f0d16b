"""The table of the kill suite: one column per scenario, counts first, then times. Decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import median

from moldau.cluster.kills.checking import CheckedScenario
from moldau.history.checks import DUPLICATED, LOST, REORDERED, UNANSWERED, count, longest_gap_ms
from moldau.history.rows import FAIL, INFO, Kill

SHOWN = 8
"""Anomalies of a scenario that are printed; all of them are in the folder that is kept."""
NAMED = (LOST, DUPLICATED, REORDERED, UNANSWERED)


def table(checked: Sequence[CheckedScenario]) -> str:
    """Rows of text, aligned."""
    rows: list[list[str]] = [["", *(one.plan.scenario for one in checked)]]

    def row(name: str, cell: Callable[[CheckedScenario], object]) -> None:
        rows.append([name, *(str(cell(one)) for one in checked)])

    row("kills", lambda one: len(one.history.kills))
    row("acknowledged", lambda one: f"{one.history.acked:,}")
    for kind in NAMED:
        row(kind, lambda one, kind=kind: count(one.anomalies)[kind])  # type: ignore[misc]
    row("other anomalies", lambda one: sum(n for kind, n in count(one.anomalies).items() if kind not in NAMED))
    row("refused", lambda one: sum(send.outcome in (FAIL, INFO) for send in one.history.sends))
    row("longest gap in acks, p50 / max", lambda one: _spread(longest_gap_ms(one.history.sends, k) for k in _of(one)))
    row("time to leaders, p50 / max", lambda one: _spread(k.leader_ms for k in _of(one)))
    row("time to a controller, p50 / max", lambda one: _spread(k.controller_ms for k in _of(one)))
    row("time to acks everywhere, p50 / max", lambda one: _spread(k.acks_ms for k in _of(one)))
    row("restart to in sync, p50 / max", lambda one: _spread(k.in_sync_ms for k in _of(one)))
    row("verdict", lambda one: one.verdict.name)
    widths = [max(len(cells[n]) for cells in rows) for n in range(len(rows[0]))]
    return "\n".join(
        "  ".join([cells[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(cells[1:], widths[1:], strict=True))])
        for cells in rows
    )


def problems(checked: Iterable[CheckedScenario]) -> str:
    """Anomalies and doubts in words, the first few of each scenario."""
    lines = []
    for one in checked:
        texts = [f"{anomaly.kind}: {anomaly.text}" for anomaly in one.anomalies] + one.doubts
        lines += [f"{one.plan.scenario}: {text}" for text in texts[:SHOWN]]
        if len(texts) > SHOWN:
            lines.append(f"{one.plan.scenario}: and {len(texts) - SHOWN} more")
    return "\n".join(lines)


def _of(one: CheckedScenario) -> list[Kill]:
    return one.history.kills


def _spread(values: Iterable[float]) -> str:
    known = [value for value in values if value >= 0]
    return f"{_ms(median(known))} / {_ms(max(known))}" if known else "-"


def _ms(value: float) -> str:
    return f"{value:.0f} ms" if value < 10_000 else f"{value / 1000:.1f} s"
