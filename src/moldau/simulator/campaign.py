"""``make sim``: runs thousands of seeds of both tiers over a few processes, and prints a table of the results.

``python -m moldau.simulator.campaign --machines 2000 --nodes 200 --first 0``. Tier A is the machines alone
(``simulator.machines``), tier B real nodes (run.py). The campaign fails on a broken law, with the command that repeats
it; and, where at least 2,000 machine seeds or 200 of nodes ran, on a coverage point that no seed reached. From 20 seeds
of a machine on, most of its points must be reached.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from os import cpu_count
from typing import NamedTuple

import click

from moldau.simulator.buggify import COVERAGE_POINTS as BUGGIFY
from moldau.simulator.coverage_points import COVERAGE_POINTS
from moldau.simulator.coverage_points_zookeeper import ZOOKEEPER_COVERAGE_POINTS
from moldau.simulator.machines.seeds import MACHINES, coverage_points_of, run_seed
from moldau.simulator.scenes import QUORUM, ZOOKEEPER

SHARES = {"quorum": 17, "voters": 6, "replication": 35, "controller": 11, "active_controller": 15, "groups": 16}
"""How many of every hundred machine seeds each machine gets. The cheap machines, and those whose mutants are rarely
caught, get more."""
NODES, ZNODES = "nodes", "nodes on ZooKeeper"
PLANES = {NODES: QUORUM, ZNODES: ZOOKEEPER}
OF_CLUSTERS = {NODES: COVERAGE_POINTS, ZNODES: ZOOKEEPER_COVERAGE_POINTS}
ZOOKEEPER_SHARE = 0.3
"""The share of the seeds of whole clusters that run in ZooKeeper mode."""
CHUNK = 2
WHOLE, WHOLE_NODES = 2000, 200
"""Machine seeds, and seeds of whole clusters, from which on every coverage point must be reached."""
SOME, MOST = 20, 0.7
"""Seeds of one machine from which on more than this share of its points must be reached: where next to nothing happens,
nothing is proved."""


class SeedChunk(NamedTuple):
    """What one process is given: seeds of one machine, or of whole clusters (``PLANES``)."""

    what: str
    first: int
    seeds: int


@dataclass
class Sum:
    """What the seeds of one row came to."""

    seeds: int = 0
    events: int = 0
    checks: int = 0
    virtual_ms: int = 0
    unknown: int = 0
    coverage: set[str] = field(default_factory=set)
    broken: list[tuple[str, str]] = field(default_factory=list)

    def add(self, other: Sum) -> None:
        self.seeds += other.seeds
        self.events += other.events
        self.checks += other.checks
        self.virtual_ms += other.virtual_ms
        self.unknown += other.unknown
        self.coverage |= other.coverage
        self.broken += other.broken


def chunks(machines: int, nodes: int, first: int) -> Iterator[SeedChunk]:
    """The work, the slowest first: a pool whose last piece is a long one waits for it alone."""
    on_zookeeper = round(nodes * ZOOKEEPER_SHARE)
    for what, seeds in ((NODES, nodes - on_zookeeper), (ZNODES, on_zookeeper)):
        for at in range(first, first + seeds, CHUNK):
            yield SeedChunk(what, at, min(CHUNK, first + seeds - at))
    for machine in MACHINES:
        seeds = round(machines * SHARES[machine] / 100)
        for at in range(first, first + seeds, 25):
            yield SeedChunk(machine, at, min(25, first + seeds - at))


def run_chunk(chunk: SeedChunk) -> Sum:
    """Run it in this process."""
    done = Sum()
    for seed in range(chunk.first, chunk.first + chunk.seeds):
        done.add(_nodes(seed, PLANES[chunk.what]) if chunk.what in PLANES else _machine(chunk.what, seed))
    return done


def _machine(machine: str, seed: int) -> Sum:
    outcome = run_seed(machine, seed)
    broken = [] if outcome.broken is None else [(str(outcome.broken)[:300], outcome.reproduce)]
    return Sum(1, outcome.events, outcome.checks, outcome.virtual_ms, 0, set(outcome.coverage), broken)


def _nodes(seed: int, plane: str) -> Sum:
    from moldau.simulator.run import simulate

    logging.disable(logging.CRITICAL)
    outcome = simulate(seed, None, plane)
    again = f"moldau sim --seed {seed}" + ("" if plane == QUORUM else f" --mode {plane}")
    broken = [(law[:300], again) for law in outcome.broken]
    virtual_ms = round(outcome.virtual_s * 1000)
    # A run in which too little happened proves nothing: unknown, never a pass.
    unknown = int(outcome.verdict == "unknown")
    return Sum(1, outcome.steps, 0, virtual_ms, unknown, outcome.coverage, broken)


def run(work: list[SeedChunk], processes: int) -> dict[str, Sum]:
    """Run all of it, telling how far it is; sums by row."""
    rows = {what: Sum() for what in (*MACHINES, *PLANES) if any(chunk.what == what for chunk in work)}
    seeds, done, told = sum(chunk.seeds for chunk in work), 0, time.monotonic()
    with ProcessPoolExecutor(processes) as pool:
        under_way = {pool.submit(run_chunk, chunk): chunk for chunk in work}
        for future in as_completed(under_way):
            chunk, result = under_way[future], future.result()
            rows[chunk.what].add(result)
            done += chunk.seeds
            for law, reproduce in result.broken:
                print(f"BROKEN {law}\nreproduce: {reproduce}", flush=True)
            if time.monotonic() - told > 5:
                told = time.monotonic()
                print(f"sim: {done}/{seeds} seeds", flush=True)
    return rows


def table(rows: dict[str, Sum]) -> str:
    """Seeds, events, virtual hours and laws checked by row."""
    lines = [
        f"{'world':<18} {'seeds':>6} {'events':>10} {'virtual h':>10} {'laws run':>11} {'broken':>7} {'unknown':>8}"
    ]
    for what, one in rows.items():
        hours = one.virtual_ms / 3_600_000
        tail = f"{len(one.broken):>7} {one.unknown:>8}"
        events, checks = f"{one.events:,}", f"{one.checks:,}" if one.checks else ""
        lines.append(f"{what:<18} {one.seeds:>6} {events:>10} {hours:>10.1f} {checks:>11} {tail}")
    return "\n".join(lines)


def missed(rows: dict[str, Sum]) -> dict[str, list[str]]:
    """Return the coverage points that no seed reached, by row; buggify points count for both modes together."""
    wanted = {what: OF_CLUSTERS[what] if what in PLANES else coverage_points_of(what) for what in rows}
    every = {what: sorted(coverage - rows[what].coverage) for what, coverage in wanted.items()}
    if all(plane in rows for plane in PLANES):
        every["both modes"] = sorted(BUGGIFY.difference(*(rows[plane].coverage for plane in PLANES)))
    return {what: coverage for what, coverage in every.items() if coverage}


def too_few(rows: dict[str, Sum]) -> dict[str, str]:
    """Machines whose seeds reached hardly any coverage points, and how many of them."""
    points = {what: coverage_points_of(what) for what, one in rows.items() if what not in PLANES and one.seeds >= SOME}
    hit = {what: len(rows[what].coverage & wanted) for what, wanted in points.items()}
    return {what: f"{hit[what]} of {len(wanted)}" for what, wanted in points.items() if hit[what] <= MOST * len(wanted)}


@click.command()
@click.option("--machines", default=WHOLE, show_default=True, help="Seeds of the machines alone (tier A).")
@click.option("--nodes", default=WHOLE_NODES, show_default=True, help="Seeds of whole clusters (tier B).")
@click.option("--first", default=0, show_default=True, help="The first seed of each.")
@click.option("--processes", default=min(2, cpu_count() or 1), show_default=True)
def campaign(machines: int, nodes: int, first: int, processes: int) -> None:
    """Run many seeds, and say what they came to."""
    begun = time.monotonic()
    rows = run(list(chunks(machines, nodes, first)), processes)
    print(table(rows))
    enough = {what: nodes >= WHOLE_NODES if what in PLANES else machines >= WHOLE for what in rows}
    gone = missed({what: one for what, one in rows.items() if enough[what]})
    for machine, coverage in gone.items():
        print(f"NEVER HIT in {machine}: {', '.join(coverage)}")
    few = too_few(rows)
    for machine, reached in few.items():
        print(f"HARDLY ANYTHING HAPPENED in {machine}: {reached} coverage points")
    broken = sum(len(one.broken) for one in rows.values())
    print(f"{sum(one.seeds for one in rows.values())} seeds in {time.monotonic() - begun:.0f} s, {broken} laws broken")
    if broken or gone or few:
        raise SystemExit(1)


if __name__ == "__main__":
    campaign()
