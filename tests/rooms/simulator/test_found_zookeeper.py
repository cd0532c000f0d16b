"""Seeds of the ZooKeeper plane that once broke a law, one line each on what they found: they stay whole."""

from __future__ import annotations

import pytest

from moldau.simulator.run import simulate
from moldau.simulator.scenes import ZOOKEEPER

FOUND = {
    13: "a broker that lost power and was back before the next controller was elected led on without its tail (S11)",
    37: "the same broker as that controller: deposed before it wrote its first decision, it served by what it had read",
    29: "a server that lagged told the epoch of a broker's earlier life, and the broker joined no ISR any more (L3)",
}


@pytest.mark.parametrize("seed", FOUND, ids=lambda seed: f"seed {seed}")
def test_what_a_seed_once_found_stays_mended(seed: int) -> None:
    outcome = simulate(seed, None, ZOOKEEPER)
    assert outcome.broken == []
    assert outcome.acked > 0


def test_requests_of_tools_are_removed_only_by_the_controller_in_office() -> None:
    """Z1: they were removed whoever was controller by then."""
    outcome = simulate(4, "tools", ZOOKEEPER)
    assert outcome.broken == []
    assert outcome.troubles["tools"] > 3
