"""``make mutants``: hunts every mutant from several starts, and prints which law caught each after how many seeds.

``python -m moldau.simulator.mutants.table --hunts 5 --limit 2000 [--only KAFKA-7128]``. Ends with the laws that no
mutant breaks; fails when a mutant was not caught, or only by a law that is not named for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from os import cpu_count

import click

from moldau.simulator.mutants import (
    compaction,
    controller,
    deletions,
    followers,
    groups,
    law_table,
    mixed,
    quorum,
    replication,
    sequences,
    storage,
    transactions,
    voters,
    zookeeper,
)  # fmt: skip
from moldau.simulator.mutants.hunt import Hunted, hunted
from moldau.simulator.mutants.mutant import Mutant

MUTANTS: tuple[Mutant, ...] = (
    *replication.MUTANTS,
    *quorum.MUTANTS,
    *voters.MUTANTS,
    *controller.MUTANTS,
    *groups.MUTANTS,
    *zookeeper.MUTANTS,
    *mixed.MUTANTS,
    *compaction.MUTANTS,
    *storage.MUTANTS,
    *sequences.MUTANTS,
    *deletions.MUTANTS,
    *transactions.MUTANTS,
    *followers.MUTANTS,
)
_BY_NAME = {mutant.name: mutant for mutant in MUTANTS}

CHECKED = (
    *(
        "S1",
        "S2",
        "S3",
        "S4",
        "S5",
        "S6",
        "S7",
        "S8",
        "S9",
        "S10",
        "S11",
        "S12",
        "S13",
        "S14",
        "S17",
        "S18",
        "S20",
        "S21",
    ),
    *("C1", "C2", "C3", "C4", "C5", "C6", "C7", "C8", "C9", "C10", "C11", "C12", "C13"),
    *("R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8", "R9", "R10"),
    *("Z1", "Z2", "Z3", "Z4", "Z5", "Z6", "Z7", "Z8"),
    *("L1", "L2", "L3", "L5", "L7", "L8", "L9", "L10", "L11", "L12", "L13", "X7"),
)
"""The laws that the machines' worlds check, and S5, C9 and Z1 to Z8 of whole clusters."""


def _hunt(name: str, hunts: int, limit: int) -> Hunted:
    return hunted(_BY_NAME[name], hunts=hunts, limit=limit)


def line(one: Hunted) -> str:
    """A row of the table, as Markdown."""
    mutant = _BY_NAME[one.name]
    missed = f"caught in {len(one.catches)} hunts only" if one.catches else "**not caught**"
    seeds = missed if one.seeds is None else f"{one.seeds:g}"
    return f"| {mutant.bug} | {mutant.what} | {mutant.machine} | {' '.join(one.laws)} | {seeds} |"


def quiet_laws(done: Iterable[Hunted]) -> list[str]:
    """The laws that no mutant tripped."""
    tripped = {law for one in done for law in one.laws}
    return [law for law in CHECKED if law not in tripped]


def wrong(one: Hunted) -> bool:
    """Not caught, or by a law that says nothing about it."""
    return one.seeds is None or not set(one.laws) & set(_BY_NAME[one.name].laws)


@click.command()
@click.option("--hunts", default=3, show_default=True, help="Independent hunts of each mutant.")
@click.option("--limit", default=2500, show_default=True, help="Seeds after which a hunt is given up.")
@click.option("--only", default="", help="Only mutants whose bug, name or machine contains this.")
@click.option("--processes", default=min(2, cpu_count() or 1), show_default=True)
@click.option("--laws", is_flag=True, help="Hunt nothing: show each law, what checks it, and the mutants named for it.")
def mutants(hunts: int, limit: int, only: str, processes: int, laws: bool) -> None:
    """Hunt the known mistakes."""
    if laws:
        print(law_table.table(MUTANTS), end="")
        return
    chosen = [one for one in MUTANTS if only in (one.machine,) or only in one.bug or only in one.name]
    done: dict[str, Hunted] = {}
    with ProcessPoolExecutor(processes) as pool:
        under_way = [pool.submit(_hunt, mutant.name, hunts, limit) for mutant in chosen]
        for future in as_completed(under_way):
            one = future.result()
            done[one.name] = one
            print(f"mutants: {len(done)}/{len(chosen)} {one.name}: {' '.join(one.laws)} {one.seeds}", flush=True)
    print("\n| bug | mistake | world | caught by | median seeds |\n|---|---|---|---|---|")
    for mutant in chosen:
        print(line(done[mutant.name]))
    print(f"\n{len(chosen)} mutants, {hunts} hunts each.")
    if not only:
        print("Laws that no mutant trips: " + (" ".join(quiet_laws(done.values())) or "none") + ".")
    failed = [one for one in done.values() if wrong(one)]
    for one in failed:
        print(f"WRONG {one.name}: expected {' '.join(_BY_NAME[one.name].laws)}, got {' '.join(one.laws) or 'nothing'}")
    if failed:
        raise SystemExit(1)


if __name__ == "__main__":
    mutants()
