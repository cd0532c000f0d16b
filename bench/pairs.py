"""Two checkouts of Moldau in turns: whether a change made a cell of the bench slower.

    python -m bench.pairs /path/to/the/older/checkout [--rounds 5] [--only start flow latency create]

The nodes of a cluster are run from the one checkout or the other, everything else (load, settings, interpreter) is this
checkout's. Each round measures a cell on both, the order changes from round to round, and a ratio is taken within a
round: so it stays true on a machine whose speed drifts. A ratio above 1 means that this checkout is better.
Read next: bench/cells.py (what is measured), bench/run.py (Moldau beside Apache Kafka).
"""

from __future__ import annotations

import argparse
import compileall
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from bench import controller
from bench.cells import CELLS as OF_CLUSTERS
from bench.cells import Row, Sizes, Stand
from bench.run import build_driver
from bench.systems import KafkaPeer, MoldauPeer

HERE = Path(__file__).resolve().parents[1]
SIZES = Sizes(small_records=1_000_000, large_records=300_000, repeats=1, idle_s=5, latency_s=8)
TOPICS = controller.Sizes(repeats=1)


class CheckoutPeer(MoldauPeer):
    """A cluster whose commands are those of one checkout."""

    source = HERE / "src"

    def format_command(self, node_id: int) -> list[str]:
        return ["env", f"PYTHONPATH={self.source}", *super().format_command(node_id)]

    def node_command(self, node_id: int) -> list[str]:
        return ["env", f"PYTHONPATH={self.source}", *super().node_command(node_id)]


class CheckoutStand(Stand):
    """The bench with nodes of one checkout."""

    def __init__(self, checkout: Path) -> None:
        super().__init__("moldau", SIZES)
        self._source = checkout / "src"

    def cluster(self, nodes: int) -> KafkaPeer:
        peer = CheckoutPeer(nodes)
        peer.source = self._source
        return peer


def create_cell(stand: Stand) -> Iterator[Row]:
    """100 topics of 100 partitions on three nodes."""
    with stand.cluster(3) as peer:
        cluster = controller.Stand(peer, TOPICS)
        try:
            yield from (Row(*row) for row in cluster.create())
        finally:
            cluster.eyes.close()


CELLS: dict[str, Callable[[Stand], Iterator[Row]]] = {**OF_CLUSTERS, "create": create_cell}
USUAL = ("start", "flow", "latency", "create")


def better(row: Row, older: float, newer: float) -> float:
    """How much better the newer value is: above 1 is better."""
    return newer / older if row.better == "higher" else older / newer


def measure(cell: str, stands: tuple[Stand, Stand], rounds: int) -> dict[str, tuple[Row, list[float], list[float]]]:
    """The values of both checkouts for each row of a cell, round by round: the older ones, the newer ones."""
    found: dict[str, tuple[Row, list[float], list[float]]] = {}
    for number in range(rounds):
        for which in (0, 1) if number % 2 == 0 else (1, 0):
            for row in CELLS[cell](stands[which]):
                _, *values = found.setdefault(row.what, (row, [], []))
                values[which].append(row.value)
        print(f"{cell}: round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    return found


def report(found: dict[str, tuple[Row, list[float], list[float]]]) -> Iterator[str]:
    """A line of a markdown table for each row."""
    for row, older, newer in found.values():
        ratios = sorted(better(row, *pair) for pair in zip(older, newer, strict=True))
        yield (
            f"| {row.what} | {row.unit} | {statistics.median(older):.4g} | {statistics.median(newer):.4g} "
            f"| {statistics.median(ratios):.3f} | {ratios[0]:.2f} to {ratios[-1]:.2f} |"
        )


def commit(checkout: Path) -> str:
    """The commit of a checkout, short."""
    asked = ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def compile_sources(checkout: Path) -> None:
    """Write the bytecode of a checkout, as an installation has it: with PYTHONDONTWRITEBYTECODE each start of a
    node in a new worktree compiles its sources, 0.6 s and more, which is no cost of the broker."""
    compileall.compile_dir(checkout / "src", quiet=1)


def main() -> int:
    ask = argparse.ArgumentParser(prog="bench.pairs", description="Measure two checkouts of Moldau in turns.")
    ask.add_argument("older", type=Path, help="the checkout to compare with, for instance a git worktree")
    ask.add_argument("--rounds", type=int, default=5, help="how often each cell is measured on both (5)")
    ask.add_argument(
        "--only", nargs="+", choices=CELLS, metavar="CELL", default=USUAL, help=f"some of: {', '.join(CELLS)}"
    )
    wish = ask.parse_args()
    if not (wish.older / "src" / "moldau").is_dir():
        ask.error(f"{wish.older} is no checkout of Moldau: it has no src/moldau")
    build_driver()
    for checkout in (wish.older, HERE):
        compile_sources(checkout)
    print(f"| {commit(wish.older)} and {commit(HERE)} | unit | older | newer | ratio | of rounds |")
    print("|---|---|---:|---:|---:|---|", flush=True)
    stands = (CheckoutStand(wish.older.resolve()), CheckoutStand(HERE))
    for cell in wish.only:
        for line in report(measure(cell, stands, wish.rounds)):
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
