"""Small scopes, searched whole: no order of events breaks a law; with a known mistake one does, the shortest of all."""

from __future__ import annotations

import pytest

from moldau.simulator.machines import small_quorum, small_replication
from moldau.simulator.machines.small import Scope, search
from moldau.simulator.mutants.mutant import Patches
from moldau.simulator.mutants.table import MUTANTS

SCOPES: dict[str, Scope] = {**small_replication.SCOPES, **small_quorum.SCOPES}
LIMIT = 1500


@pytest.mark.parametrize("name", SCOPES)
def test_no_order_of_a_few_events_breaks_a_law(name: str) -> None:
    found = search(SCOPES[name], 30, LIMIT)
    assert found.broken is None, "\n".join([*found.path, str(found.broken)])
    assert found.states >= LIMIT or found.whole


@pytest.mark.parametrize(
    ("name", "mutant", "law"),
    [
        ("replication, 2 replicas", "watermark_is_the_leaders_end", "S3"),
        ("quorum, two rivals", "votes_twice_in_an_epoch", "R2"),
    ],
)
def test_the_shortest_way_to_a_mistake_is_told(name: str, mutant: str, law: str) -> None:
    with Patches() as patches:
        next(one for one in MUTANTS if one.name == mutant).patch(patches)
        found = search(SCOPES[name], 30, 10_000)
    assert found.broken is not None
    assert found.broken.law == law
    assert len(found.path) == found.depth


def test_the_same_scope_is_the_same_number_of_states() -> None:
    scope = small_replication.ReplicasScope(2, 1, records=1, epochs=0, crashes=0, losses=0)
    first, again = (search(scope, 40, 100_000) for _ in range(2))
    assert first == again
    assert first.whole
