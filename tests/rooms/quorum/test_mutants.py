"""Testing the laws: each mutant is a known mistake, and some law (or the bounded time) must catch it in a few seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from moldau.quorum import Candidate, LogView, election, follower, leader, moves
from moldau.quorum import effects as do
from moldau.quorum.state import Turn
from moldau.quorum.tally import reached_by_majority
from moldau.simulator.machines.quorum_world import World
from moldau.terms.value import replace
from tests.rooms.quorum.test_simulation import (
    test_a_dead_leader_is_replaced_long_before_any_timeout as replace_the_dead,
)
from tests.rooms.quorum.test_simulation import (
    test_a_leader_that_loses_its_tail_and_comes_right_back_hurts_nobody as flap,
)
from tests.rooms.quorum.test_simulation import (
    test_a_voter_back_from_isolation_deposes_nobody as come_back,
)
from tests.rooms.quorum.test_simulation import (
    test_chaos_breaks_no_law_and_the_quorum_recovers as chaos,
)

Patch = Callable[[pytest.MonkeyPatch], None]


def advance_without_own_record(turn: Turn) -> None:
    quorum, role = turn.quorum, turn.role
    reached = reached_by_majority([quorum.log.flushed, *(voter.end_offset for voter in role.voters.values())])  # type: ignore[union-attr]
    if reached > (role.high_watermark or 0):  # type: ignore[union-attr]
        first = role.high_watermark is None  # type: ignore[union-attr]
        turn.carry(high_watermark=reached)
        turn.put(high_watermark=reached)
        turn.say(do.Commit(reached))
        if first:
            turn.say(do.BecameActive(role.epoch))


def high_watermark_without_own_record(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leader, "_advance", advance_without_own_record)


def no_check_quorum(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leader, "check_quorum_deadline_ms", lambda quorum, role: leader.FOREVER_MS)


def no_pre_vote(patch: pytest.MonkeyPatch) -> None:
    for module in (moves, election, follower):
        if hasattr(module, "become_prospective"):
            patch.setattr(module, "become_prospective", lambda turn, retries=0: moves.become_candidate(turn, retries))


def no_fast_death(patch: pytest.MonkeyPatch) -> None:
    real = follower.fetch_failed
    patch.setattr(follower, "fetch_failed", lambda turn, peer, ask, *, dead: real(turn, peer, ask, dead=False))


def unflushed_counts(patch: pytest.MonkeyPatch) -> None:
    real = LogView.appended
    patch.setattr(LogView, "appended", lambda self, end, epoch: replace(real(self, end, epoch), flushed=end))


def two_votes_an_epoch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(election, "_may_vote", lambda quorum, ask: election._log_is_as_new(quorum, ask))
    real = election.vote_asked

    def vote(turn: Turn, token: Any, ask: Any) -> None:
        if not ask.pre_vote and turn.role.epoch == ask.epoch and not isinstance(turn.role, leader.Leader):
            turn.carry(voted=None)
        real(turn, token, ask)

    patch.setattr(election, "vote_asked", vote)


def votes_for_short_logs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(election, "_log_is_as_new", lambda quorum, ask: True)


def commits_before_the_log_is_proved(patch: pytest.MonkeyPatch) -> None:
    real = follower._truncate

    def truncate(turn: Turn, end: int) -> None:
        real(turn, end)
        follower._commit(turn, 1 << 40)

    patch.setattr(follower, "_truncate", truncate)


def never_truncates(patch: pytest.MonkeyPatch) -> None:
    real = follower.fetch_answered

    def fetched(turn: Turn, peer: int, ask: Any, answer: Any) -> None:
        real(turn, peer, ask, answer._replace(diverging=None))

    patch.setattr(follower, "fetch_answered", fetched)


def a_resigned_leader_stands_in_its_own_epoch_again(patch: pytest.MonkeyPatch) -> None:
    real = election.tick_resigned

    def tick(turn: Turn) -> None:
        if turn.at.now_ms >= turn.role.deadline_ms:  # type: ignore[union-attr,operator]
            epoch, me = turn.role.epoch, turn.quorum.me
            moves._enter(turn, Candidate(epoch, me, turn.election_timeout(), granted=frozenset({me.id})))
            moves.ask_votes(turn, tuple(voter.key.id for voter in turn.quorum.voters.others(me)))
        else:
            real(turn)

    patch.setattr(election, "tick_resigned", tick)


MUTANTS: list[tuple[Patch, Callable[[int], None], str]] = [
    (high_watermark_without_own_record, chaos, "R6|R3|R4"),
    (no_check_quorum, chaos, "R10"),
    (no_pre_vote, come_back, "=="),
    (no_fast_death, replace_the_dead, "< 500"),
    (unflushed_counts, chaos, "R5|R3"),
    (two_votes_an_epoch, chaos, "R1|R2"),
    (votes_for_short_logs, chaos, "R3|R4|R5|committed"),
    (commits_before_the_log_is_proved, chaos, "R3|R4|R5|beyond"),
    (never_truncates, chaos, "R3|R4|R5|not within|follows"),
    (a_resigned_leader_stands_in_its_own_epoch_again, flap, "R1|R3|truncate|follows"),
]


def try_all(scenario: Callable[[int], None]) -> None:
    for seed in range(60):
        scenario(seed)


@pytest.mark.parametrize(("mutant", "scenario", "by"), MUTANTS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_known_mistake_is_caught(mutant: Patch, scenario: Callable[[int], None], by: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        mutant(patch)
        with pytest.raises(AssertionError, match=by):
            try_all(scenario)


def crashes(seed: int) -> None:
    world = World(seed, voters=3, crash=0.02, loss=0.05, propose_ms=100)
    world.run_for(20_000)


def forgets_its_vote(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(World, "remembered", lambda self, disk: disk.election._replace(voted=None))


def speaks_first(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(World, "ordered", lambda self, effects: sorted(effects, key=lambda e: isinstance(e, do.Persist)))


@pytest.mark.parametrize("mutant", [forgets_its_vote, speaks_first])
def test_a_driver_that_does_not_persist_first_is_caught(mutant: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    with pytest.raises(AssertionError, match="R1|R2|C1"):
        try_all(crashes)


def test_the_driver_that_does_is_not() -> None:
    for seed in range(3):
        crashes(seed)
