"""Seeds that once broke a law, one line each on what they found: they stay whole."""

from __future__ import annotations

import pytest

from moldau.simulator.run import simulate

FOUND = {
    30: "a leader deposed before it appended kept an epoch without records, and diverged from its successors for ever",
}


@pytest.mark.parametrize("seed", FOUND, ids=lambda seed: f"seed {seed}")
def test_what_a_seed_once_found_stays_mended(seed: int) -> None:
    outcome = simulate(seed)
    assert outcome.broken == []
    assert outcome.acked > 0
