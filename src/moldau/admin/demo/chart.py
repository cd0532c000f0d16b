"""Draws the outcome as a PNG: flights acknowledged and stored over time, who led what, the moment of the kill close by,
and delays by carrier and hour.

Plots over time have one scale and one width, and what is marked on them is written above the first, over no data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from moldau.admin.demo.checking import mean_delays
from moldau.admin.demo.story import DemoOutcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

_BROKERS = ("#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#76b7b2", "#edc948")
_NOBODY = "#d62728"
_STORED = "#e15759"
_BEFORE_S, _LEAST_AFTER_S = 0.25, 0.5
"""What is shown of the time around the kill; after it, at least, and always more than the longest gap."""


class LeaderSpan(NamedTuple):
    """Who led a partition from when to when, in seconds; ``leader`` -1 is nobody, or one that is dead."""

    partition: int
    start: float
    end: float
    leader: int


def spans(outcome: DemoOutcome) -> list[LeaderSpan]:
    """Who led what. A broker that was killed leads nothing from then on, whoever was told so when."""
    until = max(outcome.in_table, outcome.in_sync)
    killed = next((one for one in outcome.happenings if one.what == "killed"), None)
    found: list[LeaderSpan] = []
    for partition in sorted({change.partition for change in outcome.changes}):
        moves = [change for change in outcome.changes if change.partition == partition and change.leader_moved]
        ends = [change.at for change in moves[1:]] + [until]
        for change, end in zip(moves, ends, strict=True):
            start, leader = max(outcome.began, change.at), change.after.leader
            if killed is not None and leader == killed.broker and start < killed.at < end:
                found.append(LeaderSpan(partition, start, killed.at, leader))
                start, leader = killed.at, -1
            if end > start:
                found.append(LeaderSpan(partition, start, end, leader))
    return [one._replace(start=one.start - outcome.began, end=one.end - outcome.began) for one in found]


def draw(outcome: DemoOutcome, table: Path, path: Path) -> None:
    """Write the chart to ``path``; ``table`` is that of flights."""
    paint(outcome, mean_delays(table), path)


def paint(outcome: DemoOutcome, means: Mapping[tuple[str, int], float], path: Path) -> None:
    """Write the chart of an outcome, with mean delays by carrier and hour."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure = pyplot.figure(figsize=(11, 17), layout="constrained")
    grid = figure.add_gridspec(5, 2, height_ratios=(3, 3, 2.4, 2.4, 4), width_ratios=(60, 1))
    pace = figure.add_subplot(grid[0, 0])
    total = figure.add_subplot(grid[1, 0], sharex=pace)
    leaders = figure.add_subplot(grid[2, 0], sharex=pace)
    close, heat = figure.add_subplot(grid[3, 0]), figure.add_subplot(grid[4, 0])
    found = spans(outcome)
    _pace(pace, outcome)
    _total(total, outcome)
    _lead(leaders, found, "who led which partition")
    leaders.set_xlabel("seconds")
    leaders.set_xlim(0, max(outcome.in_table, outcome.in_sync) - outcome.began)
    _close(close, outcome, found)
    _heat(figure, heat, figure.add_subplot(grid[4, 1]), means)
    for axes in (pace, total, leaders):
        _mark(axes, outcome, told=axes is pace)
    figure.suptitle(_headline(outcome), fontweight="bold")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _headline(outcome: DemoOutcome) -> str:
    books = outcome.books
    return (
        f"{int(books.produced.sum()):,} flights acknowledged, {int(books.in_log.sum()):,} in the log, "
        f"{int(books.in_table.sum()):,} in the table: {books.lost:,} lost, {books.duplicated:,} duplicated"
    )


def _separated(axis: Axis) -> None:
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def _titled(axes: Axes, text: str, *, up: int = 6) -> None:
    axes.set_title(text, loc="left", fontsize=10, pad=up)


def _beside(axes: Axes, count: int) -> None:
    """A legend in the title's line, at its right end, where no data is."""
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=count, frameon=False, fontsize=9, borderaxespad=0.2)


def _pace(axes: Axes, outcome: DemoOutcome) -> None:
    acks = outcome.acks
    seconds = range(min(acks.by_second, default=0), max(acks.by_second, default=0) + 1)
    times = [second + 0.5 - outcome.began for second in seconds]
    axes.bar(times, [acks.by_second[second] for second in seconds], 0.9, color="#a0cbe8")
    axes.set_ylabel("flights a second")
    _separated(axes.yaxis)
    gap = f"longest gap of all acknowledgements: {acks.gap[0]:.2f} s"
    _titled(axes, f"flights acknowledged in each second; {gap}", up=56 if outcome.happenings else 6)


def _total(axes: Axes, outcome: DemoOutcome) -> None:
    acks, began = outcome.acks, outcome.began
    sent, count = [0.0], [0]
    for second in range(min(acks.by_second, default=0), max(acks.by_second, default=0) + 1):
        sent.append(second + 1 - began)
        count.append(count[-1] + acks.by_second[second])
    stored, rows = [0.0], [0]
    for at, more in outcome.batches:
        stored.append(at - began)
        rows.append(rows[-1] + more)
    axes.plot(sent, count, color="#4e79a7", label="acknowledged")
    axes.step(stored, rows, where="post", color=_STORED, label="in the table")
    axes.set_ylabel("flights")
    axes.set_ylim(0, max(1, count[-1], rows[-1]) * 1.05)
    axes.grid(axis="y", color="#dddddd")
    _separated(axes.yaxis)
    _titled(axes, f"flights in all: {count[-1]:,} acknowledged, {rows[-1]:,} in the table")
    _beside(axes, 2)


def _lead(axes: Axes, found: Sequence[LeaderSpan], title: str) -> None:
    for one in found:
        color = _color(one.leader)
        edge = color if one.leader < 0 else "none"  # so that a tenth of a second is seen among a minute
        axes.barh(one.partition, one.end - one.start, left=one.start, height=0.7, color=color, edgecolor=edge)
    partitions = sorted({one.partition for one in found})
    axes.set_yticks(partitions)
    axes.set_ylim(max(partitions, default=0) + 0.5, min(partitions, default=0) - 0.5)
    axes.set_ylabel("partition")
    _titled(axes, title)
    leaders = sorted({one.leader for one in found})
    for leader in leaders:
        axes.barh(0, 0, color=_color(leader), label="no live leader" if leader < 0 else f"broker {leader}")
    _beside(axes, len(leaders))


def _close(axes: Axes, outcome: DemoOutcome, found: Sequence[LeaderSpan]) -> None:
    """The time around the kill, in milliseconds, with the length of each gap behind it."""
    killed = next((one for one in outcome.happenings if one.what == "killed"), None)
    if killed is None:
        axes.set_axis_off()
        _titled(axes, "no broker was killed")
        return
    at = killed.at - outcome.began
    gaps = [one for one in found if one.leader < 0 and one.start < at + 60 and one.end > at]
    after = max([_LEAST_AFTER_S, *((one.end - at) * 2 for one in gaps)])
    begin, end = at - _BEFORE_S, at + after
    near = [one for one in found if one.end > begin and one.start < end]
    near = [one._replace(start=max(begin, one.start), end=min(end, one.end)) for one in near]
    shown = [one._replace(start=(one.start - at) * 1000, end=(one.end - at) * 1000) for one in near]
    longest = max((one.end - one.start for one in gaps), default=0.0)
    most = f"without a live leader for {longest * 1000:,.0f} ms at most"
    title = f"the same around the kill of broker {killed.broker}: {most}"
    _lead(axes, shown, title)
    if (legend := axes.get_legend()) is not None:  # the plot above has it
        legend.remove()
    for one in shown:
        if one.leader < 0:
            told = f"{one.end - one.start:,.0f} ms"
            axes.text(one.end + after * 8, one.partition, told, va="center", color="white", fontsize=9)
    axes.axvline(0, color="black", linestyle="--", linewidth=1)
    axes.set_xlim(-_BEFORE_S * 1000, after * 1000)
    axes.set_xlabel("milliseconds after the kill")
    _separated(axes.xaxis)


def _mark(axes: Axes, outcome: DemoOutcome, *, told: bool) -> None:
    """Lines where a broker died, was started, and was in sync again; said above the plot when ``told``."""
    marks = [(one.at, f"broker {one.broker} {one.what}") for one in outcome.happenings]
    if marks:
        marks.append((outcome.in_sync, "all in sync"))
    for number, (moment, what) in enumerate(marks):
        at = moment - outcome.began
        axes.axvline(at, color="black", linestyle="--", linewidth=1)
        if told:
            last = number == len(marks) - 1  # to the right of its line, the others to the left: none crosses another
            side, edge = ("left", 0.0) if last else ("right", 1.0)
            axes.annotate(
                f"{what}, {at:,.1f} s", (at, 1), xycoords=axes.get_xaxis_transform(), xytext=(0, 4 + 14 * number),
                textcoords="offset points", ha=side, fontsize=9, annotation_clip=False,
                arrowprops={"arrowstyle": "-", "linestyle": "--", "linewidth": 1, "shrinkA": 0, "shrinkB": 0,
                            "relpos": (edge, 0.0)},
            )  # fmt: skip


def _color(broker: int) -> str:
    return _NOBODY if broker < 0 else _BROKERS[(broker - 1) % len(_BROKERS)]


def _heat(figure: Figure, axes: Axes, beside: Axes, means: Mapping[tuple[str, int], float]) -> None:
    carriers, hours = sorted({carrier for carrier, _ in means}), sorted({hour for _, hour in means})
    grid = [[means.get((carrier, hour), float("nan")) for hour in hours] for carrier in carriers]
    image = axes.imshow(grid, aspect="auto", cmap="YlOrRd", vmin=0, vmax=50)
    axes.set_xticks(range(len(hours)), [str(hour) for hour in hours])
    axes.set_yticks(range(len(carriers)), carriers)
    axes.set_ylabel("carrier")
    axes.set_xlabel("scheduled hour of departure")
    _titled(axes, "mean departure delay, by carrier and hour (from the table)")
    figure.colorbar(image, cax=beside, label="minutes")
