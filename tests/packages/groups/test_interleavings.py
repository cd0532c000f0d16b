"""Members, time, a slow log and failovers in any order: every law holds after every step, and nobody waits for ever.

The faults are the simulator's; here Hypothesis is its rng, and shrinks what it finds.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.groups import laws
from moldau.groups.facts import HeartbeatReply, Reply
from moldau.model import Code
from moldau.simulator.machines.groups_swarm import Members
from moldau.simulator.machines.record import RunRecord


@settings(max_examples=25)
@given(st.randoms(use_true_random=False))
def test_interleavings_keep_every_law(rng: Random) -> None:
    members = Members(rng, RunRecord())
    members.fault_phase()
    members.come_to_rest()


def test_a_token_that_is_answered_twice_or_never_asked_is_noticed() -> None:
    audit = laws.Audit()
    with pytest.raises(AssertionError, match="twice"):
        audit.saw([Reply("t", HeartbeatReply(Code.NONE))])
