"""Draws the outcome as a PNG: flights acknowledged and stored over time, who led what, delays by carrier and hour."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from moldau.admin.demo.checking import mean_delays
from moldau.admin.demo.story import Outcome

_BROKERS = ("#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#76b7b2", "#edc948")
_NOBODY = "#d62728"


def draw(outcome: Outcome, folder: Path, path: Path) -> None:
    """Write the chart to ``path``; ``folder`` holds the tables."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (pace, leaders, heat) = pyplot.subplots(3, 1, figsize=(11, 12), height_ratios=(3, 2, 4))
    _pace(pace, outcome)
    _leaders(leaders, outcome)
    _heat(figure, heat, mean_delays(folder))
    figure.suptitle(_headline(outcome))
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _headline(outcome: Outcome) -> str:
    books = outcome.books
    return (
        f"{int(books.produced.sum()):,} flights acknowledged, {int(books.in_log.sum()):,} in the log, "
        f"{int(books.in_table.sum()):,} in the table: {books.lost:,} lost, {books.duplicated:,} duplicated"
    )


def _pace(axes: Any, outcome: Outcome) -> None:
    acks = outcome.acks
    seconds = range(min(acks.by_second, default=0), max(acks.by_second, default=0) + 1)
    times = [second + 0.5 - outcome.began for second in seconds]
    axes.bar(times, [acks.by_second[second] for second in seconds], 0.9, color="#a0cbe8", label="acknowledged a second")
    axes.set_ylabel("flights a second")
    axes.set_title(f"longest gap in acknowledged writes: {acks.gap[0]:.2f} s")
    beside = axes.twinx()
    stored, total = [(0.0, 0)], 0
    for at, rows in outcome.batches:
        total += rows
        stored.append((at - outcome.began, total))
    beside.step(
        [at for at, _ in stored], [rows for _, rows in stored], where="post", color="#e15759", label="in the table"
    )
    sent, count = [0.0], [0]
    for second in seconds:
        sent.append(second + 1 - outcome.began)
        count.append(count[-1] + acks.by_second[second])
    beside.plot(sent, count, color="#4e79a7", label="acknowledged")
    beside.set_ylabel("flights")
    beside.legend(loc="lower right")
    _mark(axes, outcome)


def _leaders(axes: Any, outcome: Outcome) -> None:
    until = max(outcome.in_table, outcome.in_sync) - outcome.began
    brokers: set[int] = set()
    for partition in sorted({change.partition for change in outcome.changes}):
        moves = [change for change in outcome.changes if change.partition == partition]
        ends = [change.at - outcome.began for change in moves[1:]] + [until]
        for change, end in zip(moves, ends, strict=True):
            start = max(0.0, change.at - outcome.began)
            leader = change.after.leader
            brokers.add(leader)
            axes.barh(partition, end - start, left=start, height=0.7, color=_color(leader))
    for broker in sorted(brokers):
        axes.barh(0, 0, color=_color(broker), label="nobody" if broker < 0 else f"broker {broker}")
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4, frameon=False)
    axes.set_yticks(sorted({change.partition for change in outcome.changes}))
    axes.set_ylabel("partition")
    axes.set_xlabel("seconds")
    axes.set_title("who led which partition", loc="left")
    _mark(axes, outcome)


def _mark(axes: Any, outcome: Outcome) -> None:
    for happening in outcome.happenings:
        at = happening.at - outcome.began
        axes.axvline(at, color="black", linestyle="--", linewidth=1)
        label = f" broker {happening.broker} {happening.what}"
        axes.text(at, axes.get_ylim()[1], label, rotation=90, va="top", fontsize=8)


def _color(broker: int) -> str:
    return _NOBODY if broker < 0 else _BROKERS[(broker - 1) % len(_BROKERS)]


def _heat(figure: Any, axes: Any, means: dict[tuple[str, int], float]) -> None:
    carriers, hours = sorted({carrier for carrier, _ in means}), sorted({hour for _, hour in means})
    grid = [[means.get((carrier, hour), float("nan")) for hour in hours] for carrier in carriers]
    image = axes.imshow(grid, aspect="auto", cmap="YlOrRd", vmin=0, vmax=50)
    axes.set_xticks(range(len(hours)), hours)
    axes.set_yticks(range(len(carriers)), carriers)
    axes.set_xlabel("scheduled hour of departure")
    axes.set_title("mean departure delay in minutes, by carrier and hour (from the totals table)")
    figure.colorbar(image, ax=axes, fraction=0.02)
