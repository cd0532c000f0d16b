"""Laws and mistakes fit together: each law is checked somewhere, and there is a known mistake that is named for it."""

from __future__ import annotations

import pytest

from moldau.simulator.mutants.law_table import LAWS, Law, laws, table
from moldau.simulator.mutants.table import MUTANTS

FOUND = laws(MUTANTS)


@pytest.mark.parametrize("law", FOUND, ids=lambda law: law.id)
def test_a_law_is_checked_and_has_a_mutant(law: Law) -> None:
    assert law.checked, f"no function says that it checks {law.id}"
    assert law.mutants, f"no mutant is named for {law.id}: nothing shows that it can be broken"


def test_all_laws_of_controller_quorum_and_liveness_are_there() -> None:
    assert [law.id for law in FOUND] == list(LAWS)
    assert len(LAWS) == 13 + 10 + 13 + 2
    assert "controller.laws.c6_states_move_by_the_table" in next(law.checked for law in FOUND if law.id == "C6")


def test_a_law_that_nobody_judges_or_breaks_is_seen_in_the_table() -> None:
    shown = table(())
    assert shown.count("**none**") == len(LAWS)
    assert "nowhere" in Law("C1", (), ()).row()
