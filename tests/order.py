"""The order in which tests run: another in every run, so that none comes to need what another one left behind.

Files are shuffled, and the tests in each file; a file's tests stay together, as they share fixtures. Live tests keep
their order: they share a running cluster on purpose. A run prints its seed, and ``--order SEED`` repeats it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

WRITTEN = "written"
SHUFFLED = ("tests/packages/", "tests/scenes/", "tests/bench/")


def new_seed() -> str:
    return str(random.SystemRandom().randrange(1_000_000))


def shuffled(node_ids: Sequence[str], seed: str) -> list[int]:
    """The places of tests in the new order. What is not shuffled stays where it is."""
    rng = random.Random(seed)
    files: dict[str, list[int]] = {}
    for place, node_id in enumerate(node_ids):
        if node_id.startswith(SHUFFLED):
            files.setdefault(node_id.partition("::")[0], []).append(place)
    order = sorted(files)  # the same from whatever order they come in
    rng.shuffle(order)
    new = []
    for file in order:
        tests = sorted(files[file], key=lambda place: (node_ids[place], place))
        rng.shuffle(tests)
        new += tests
    moved = iter(new)
    return [next(moved) if node_id.startswith(SHUFFLED) else place for place, node_id in enumerate(node_ids)]
