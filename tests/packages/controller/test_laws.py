"""Any run of requests keeps the laws. That each law can fail is shown by mutants (tests/packages/simulator)."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.simulator.machines.controller_play import Play
from tests.examples import examples

numbers = st.integers(0, 255)
runs = st.lists(st.tuples(numbers, numbers, numbers, numbers), max_size=60)


@settings(max_examples=examples(120))
@given(steps=runs, kind=st.sampled_from(["KRaft", "KRaft without an ELR", "ZooKeeper mode"]))
def test_any_run_of_asks_keeps_the_laws(steps: list[tuple[int, int, int, int]], kind: str) -> None:
    Play(elr=kind == "KRaft", zookeeper_mode=kind == "ZooKeeper mode").run(steps)


def seeded(seed: int, *, elr: bool, zookeeper_mode: bool) -> None:
    rng = random.Random(seed)
    steps = [(rng.randrange(256), rng.randrange(256), rng.randrange(256), rng.randrange(256)) for _ in range(80)]
    Play(elr=elr, zookeeper_mode=zookeeper_mode).run(steps)


@pytest.mark.parametrize("seed", range(30))
def test_long_runs_keep_the_laws(seed: int) -> None:
    seeded(seed, elr=seed % 3 == 1, zookeeper_mode=seed % 3 == 2)
