"""Majority arithmetic against its dumb twin: counting out loud."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from moldau.quorum.tally import lost, majority, reached_by_majority, won

VOTERS = st.sets(st.integers(0, 9), min_size=1, max_size=7)


@given(VOTERS, st.sets(st.integers(0, 9)))
def test_a_vote_is_won_by_more_than_half_of_the_voters(voters: set[int], granted: set[int]) -> None:
    assert won(granted, voters) == (2 * sum(voter in granted for voter in voters) > len(voters))


@given(VOTERS, st.sets(st.integers(0, 9)))
def test_a_vote_is_lost_when_not_even_all_the_others_suffice(voters: set[int], refused: set[int]) -> None:
    assert lost(refused, voters) == (not won(voters - refused, voters))


@given(st.lists(st.integers(-1, 20), min_size=1, max_size=7))
def test_a_value_is_reached_when_some_majority_is_there(values: list[int]) -> None:
    groups = combinations(values, majority(len(values)))
    assert reached_by_majority(values) == max(min(group) for group in groups)


@given(VOTERS)
def test_two_majorities_meet(voters: set[int]) -> None:
    assert 2 * majority(len(voters)) > len(voters)
