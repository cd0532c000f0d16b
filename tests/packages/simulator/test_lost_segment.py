"""A log that lost its beginning while its node was down tells nobody a wrong log start, in both modes."""

from __future__ import annotations

import pytest

from moldau.simulator.run import simulate
from moldau.simulator.scenes import LOST_SEGMENT, QUORUM, ZOOKEEPER


@pytest.mark.parametrize("plane", [QUORUM, ZOOKEEPER])
def test_a_segment_that_vanished_takes_no_record_from_anybody(plane: str) -> None:
    outcome = simulate(2, LOST_SEGMENT, plane)
    assert outcome.verdict == "passed", "\n".join([*outcome.trace, *outcome.broken, *outcome.doubts])
    assert outcome.faults[LOST_SEGMENT] > 0
