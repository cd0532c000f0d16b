"""Tells the outcome in the terminal: who led what and why it changed, the pace, delays by carrier and hour, sums."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from moldau.admin.demo.checking import mean_delays
from moldau.admin.demo.data import clock
from moldau.admin.demo.story import DemoOutcome

_BLOCKS = " ▁▂▃▄▅▆▇█"
_HEAT = ("grey23", "dark_green", "green4", "yellow4", "dark_orange3", "red3", "red1")


class ConsoleReporter:
    """Tells the story as it happens: a line per step, and bars while flights are under way."""

    def __init__(self, console: Console, total: int) -> None:
        self._console, self._total = console, total
        self._bars = Progress(
            TextColumn("{task.description:>12}"),
            BarColumn(40),
            TextColumn("{task.completed:>8,.0f} / {task.total:,.0f}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._tasks = [self._bars.add_task(name, total=total) for name in ("sent", "acked", "in the table")]
        self._begun = False

    def say(self, what: str) -> None:
        self._console.print(f"[dim]{clock_now()}[/dim]  {what}", highlight=False, soft_wrap=True)

    def progress(self, sent: int, acked: int, in_table: int) -> None:
        if not self._begun:
            self._begun = True
            self._bars.start()
        for task, done in zip(self._tasks, (sent, acked, in_table), strict=True):
            self._bars.update(task, completed=done)
        if in_table >= self._total:
            self.stop()

    def stop(self) -> None:
        """Take the bars away."""
        self._bars.stop()


def clock_now() -> str:
    """The time of day."""
    import time

    return clock(time.time())


def tell(console: Console, outcome: DemoOutcome, table: Path) -> None:
    """The whole report."""
    console.print()
    _timeline(console, outcome)
    _pace(console, outcome)
    _heat(console, mean_delays(table))
    _sums(console, outcome)


def _sums(console: Console, outcome: DemoOutcome) -> None:
    books, acks = outcome.books, outcome.acks
    table = Table(title="the books", title_justify="left", show_header=False, box=None, padding=(0, 2))
    total = books.produced.size
    rows = [
        ("flights", f"{total:,}"),
        ("acknowledged", f"{int(books.produced.sum()):,}"),
        ("in the log", f"{int(books.in_log.sum()):,}"),
        ("in the table", f"{int(books.in_table.sum()):,}"),
        ("lost", f"{books.lost:,}"),
        ("duplicated", f"{books.duplicated:,}"),
        ("table commits", f"{books.commits} for {books.batches} batches"),
        ("sums by carrier and hour", "equal to the data's" if books.totals_right else "NOT equal to the data's"),
    ]
    if acks.errors:
        rows.append(("refused", ", ".join(f"{count:,} x {text}" for text, count in acks.errors.most_common(3))))
    for name, value in rows:
        table.add_row(name, Text(value, justify="right"))
    console.print(table)
    verdict = "[bold green]everything matches" if books.balance else "[bold red]the books do NOT balance"
    console.print(f"  {verdict}[/]\n")


def _timeline(console: Console, outcome: DemoOutcome) -> None:
    title = f"who led what, and why it changed (0 s is {clock(outcome.began)})"
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column("+s", justify="right", no_wrap=True)
    for name in ("partition", "leader", "epoch", "in sync"):
        table.add_column(name, no_wrap=True)
    table.add_column("why")
    told = [(each.at, None, each) for each in outcome.happenings]
    told += [(each.at, each, None) for each in outcome.changes if each.leader_moved]  # type: ignore[misc]
    for at, change, happening in sorted(told, key=lambda each: each[0]):
        since = f"{max(0.0, at - outcome.began):.2f}"
        if happening is not None:
            table.add_row(since, "", "", "", "", f"[bold]broker {happening.broker} is {happening.what}[/]")
        elif change is not None:
            before = "" if change.before is None else f"{_name(change.before.leader)} -> "
            isr = ",".join(map(str, change.after.isr))
            leader = before + _name(change.after.leader)
            table.add_row(since, str(change.partition), leader, str(change.after.epoch), isr, change.why)
    console.print(table)
    console.print()


def _name(broker: int) -> str:
    return "nobody" if broker < 0 else str(broker)


def _pace(console: Console, outcome: DemoOutcome) -> None:
    acks = outcome.acks
    seconds = max(acks.last - (acks.first or acks.last), 0.001)
    console.print("acknowledged flights a second", highlight=False)
    first, last = min(acks.by_second, default=0), max(acks.by_second, default=0)
    counts = [acks.by_second[second] for second in range(first, last + 1)]
    top = max(counts, default=1)
    marks = {int(each.at) - first: each.what[0].upper() for each in outcome.happenings}
    console.print(
        "  " + "".join(_BLOCKS[round(count / top * 8)] for count in counts) + f"  peak {top:,}", highlight=False
    )
    console.print("  " + "".join(marks.get(index, " ") for index in range(len(counts))) + "  K killed, R restarted")
    worst = acks.worst_partition()
    lines = [
        f"{acks.bytes / seconds / 1e6:.1f} MB/s acknowledged over {seconds:.1f} s ({acks.bytes / 1e6:.1f} MB)",
        f"longest gap in acknowledged writes: {acks.gap[0]:.2f} s"
        + (f"; of one partition: {worst[1]:.2f} s (partition {worst[0]})" if worst else ""),
        f"last flight in the table {max(0.0, outcome.in_table - outcome.acked):.1f} s after its ack",
    ]
    back = [each.at for each in outcome.happenings if each.what == "restarted"]
    if back:
        lines.append(f"all replicas in sync again {max(0.0, outcome.in_sync - back[0]):.1f} s after the restart")
    for line in lines:
        console.print(f"  {line}", highlight=False, soft_wrap=True)
    console.print()


def _heat(console: Console, means: dict[tuple[str, int], float]) -> None:
    console.print("mean departure delay, carrier by hour (minutes)", highlight=False)
    hours = sorted({hour for _, hour in means})
    console.print("   " + "".join(f"{hour:>4}" for hour in hours), highlight=False)
    for carrier in sorted({carrier for carrier, _ in means}):
        line = Text(f"{carrier} ")
        for hour in hours:
            mean = means.get((carrier, hour))
            shade = _HEAT[min(len(_HEAT) - 1, max(0, int((mean or 0) // 8)))]
            line.append(
                "    " if mean is None else f"{mean:>4.0f}", style=f"white on {shade}" if mean is not None else ""
            )
        console.print(line)
    console.print()
