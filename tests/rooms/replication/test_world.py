"""The seeded world: a right machine keeps every law; every known wrong one breaks some law."""

from __future__ import annotations

import pytest

from moldau.replication.partition import Partition
from tests.rooms.replication import mutants
from tests.rooms.replication.world import Broken, World

FIRST_SEED = {
    mutants.WatermarkOverIsr: 267, mutants.WatermarkBeforeTruncation: 125, mutants.HearsLateAnswers: 515,
    mutants.ComparesOffsetAlone: 638, mutants.NeverAsksAgain: 129,
}  # fmt: skip
"""Where a rare mutant is first found; only saves time, the search goes on from there."""


def run(seed: int, machine: type[Partition], steps: int = 400) -> World:
    world = World(seed, machine)
    world.run(steps)
    world.settle()
    return world


def test_every_law_holds_in_every_weather() -> None:
    marks: set[str] = set()
    acked = 0
    for seed in range(200):
        world = run(seed, Partition)
        marks |= world.marks
        acked += len(world.acked)
    assert acked > 300, "a world in which nothing is acknowledged proves nothing"
    assert marks >= {
        "truncated", "REFETCH", "DROP", "AWAIT_IMAGE", "BACK_OFF", "IsrChanged", "StoppedLeading", "lost alter",
        "lost altered", "alter FENCED_LEADER_EPOCH",
    }  # fmt: skip


@pytest.mark.parametrize("mutant", mutants.MUTANTS, ids=lambda mutant: mutant.__name__)
def test_some_law_catches(mutant: type[Partition]) -> None:
    first = FIRST_SEED.get(mutant, 0)
    for seed in range(first, first + 700):
        try:
            run(seed, mutant)
        except Broken:
            return
    pytest.fail(f"{mutant.__name__} breaks no law: {mutant.__doc__}")
