"""Seeds that once broke a law, one line each on what they found: they stay whole.

A seed is its history only as long as nothing that it draws changes, so each find has a test of its own in its room too;
here the finds that only whole nodes can show.
"""

from __future__ import annotations

import pytest

from moldau.simulator.run import simulate

FOUND = {
    30: "a leader deposed before it appended kept an epoch without records, and diverged from its successors for ever",
    39: "a topic deleted while its log was being flushed took the log directory, and the broker, with it",
    9: "a controller whose metadata log had been replaced by a snapshot could not start again",
}


@pytest.mark.parametrize("seed", FOUND, ids=lambda seed: f"seed {seed}")
def test_what_a_seed_once_found_stays_mended(seed: int) -> None:
    outcome = simulate(seed, buggify=False)  # found before there were rare ways
    assert outcome.broken == []
    assert outcome.acked > 0
