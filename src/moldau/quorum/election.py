"""Votes: who gets ours, what the answers mean, when to stand. And the two announcements, Begin and End of an epoch.

One vote an epoch, only to a voter whose log is at least as new as ours; a pre-vote (KIP-996) binds nobody and is
refused by whoever still hears the leader. Where the log decides who votes (KIP-853) a controller votes when it is
asked, whatever its own log says: it may be the one that has yet to hear of its being added. Persisting the vote before
the answer is not done here: ``step.py`` does it for every change.
"""

from __future__ import annotations

from typing import Any

from moldau.model import Code
from moldau.quorum import effects as do
from moldau.quorum.messages import BeginAnswer, BeginAsk, EndAnswer, EndAsk, VoteAnswer, VoteAsk
from moldau.quorum.moves import (
    ask_votes,
    become_candidate,
    become_follower,
    become_leader,
    become_prospective,
    become_unattached,
    learn,
)
from moldau.quorum.roles import Candidate, Follower, Leader, Prospective, Resigned, Unattached
from moldau.quorum.state import Quorum, Turn
from moldau.quorum.tally import lost, won


def vote_asked(turn: Turn, token: Any, ask: VoteAsk) -> None:
    """Give, or refuse, a vote or a pre-vote."""
    code = _vote_refusal(turn.quorum, ask)
    granted = False
    if code is Code.NONE:
        learn(turn, ask.epoch, None)
        if ask.pre_vote:
            granted = _would_vote(turn, ask)
            if granted:
                _yield_to_candidate(turn)
        else:
            granted = _may_vote(turn.quorum, ask)
            if granted and turn.role.voted is None:
                become_unattached(turn, ask.epoch, turn.election_timeout())
                turn.carry(voted=ask.candidate)
            elif not granted:
                _stand_instead(turn, ask)
    quorum = turn.quorum
    turn.say(do.SendAnswer(token, VoteAnswer(code, quorum.role.epoch, quorum.leader, granted)))


def _vote_refusal(quorum: Quorum, ask: VoteAsk) -> Code:
    if ask.epoch < quorum.role.epoch:
        return Code.FENCED_LEADER_EPOCH
    newest = ask.epoch if ask.pre_vote else ask.epoch - 1
    if ask.last.offset < 0 or not 0 <= ask.last.epoch <= newest:
        return Code.INVALID_REQUEST
    if not ask.voter.fits(quorum.me):
        return Code.INVALID_VOTER_KEY
    if ask.candidate.id == quorum.me.id or not quorum.flushes:
        return Code.INCONSISTENT_VOTER_SET
    if quorum.has_fixed_voters and not (quorum.is_voter and quorum.voters.holds(ask.candidate)):
        return Code.INCONSISTENT_VOTER_SET
    return Code.NONE


def _log_is_as_new(quorum: Quorum, ask: VoteAsk) -> bool:
    mine = quorum.log.last
    return (ask.last.epoch, ask.last.offset) >= (mine.epoch, mine.offset)


def _may_vote(quorum: Quorum, ask: VoteAsk) -> bool:
    role = quorum.role
    if role.voted is not None:
        return role.voted.fits(ask.candidate)
    return role.leader is None and _log_is_as_new(quorum, ask)


def _would_vote(turn: Turn, ask: VoteAsk) -> bool:
    role = turn.role
    match role:
        case Leader():
            return False
        case Follower() if role.heard and role.stand_at_ms is None:
            return False
    return _log_is_as_new(turn.quorum, ask)


def _yield_to_candidate(turn: Turn) -> None:
    """Having said "I would", do not stand at once ourselves: two that stand together split the vote."""
    role = turn.role
    later_ms = turn.short_while() + turn.timing.fast_death_backoff_ms
    if isinstance(role, Follower) and role.stand_at_ms is not None:
        turn.carry(stand_at_ms=max(role.stand_at_ms, later_ms))
    elif isinstance(role, Unattached) and role.deadline_ms is not None:
        turn.carry(deadline_ms=max(role.deadline_ms, later_ms))


def _stand_instead(turn: Turn, ask: VoteAsk) -> None:
    """A candidate that is behind us cannot win while we live: nobody gains by our waiting out a whole timeout."""
    role = turn.role
    if isinstance(role, Unattached) and role.deadline_ms is not None and not _log_is_as_new(turn.quorum, ask):
        turn.carry(deadline_ms=min(role.deadline_ms, turn.short_while()))


def vote_answered(turn: Turn, peer: int, ask: VoteAsk, answer: VoteAnswer) -> None:
    """Count it, if it is still ours to count."""
    learn(turn, answer.epoch, answer.leader)
    if not _counts(turn, ask) or answer.code is Code.FENCED_LEADER_EPOCH:
        return
    role, voters = turn.role, turn.quorum.voters.ids
    assert isinstance(role, Prospective | Candidate)
    if answer.granted:
        turn.carry(granted=role.granted | {peer}, refused=role.refused - {peer})
    elif peer not in role.granted:
        turn.carry(refused=role.refused | {peer})
        if ask.pre_vote:
            # It may think otherwise in a moment, when it too has noticed that the leader is gone.
            _ask_again(turn, peer)
    role = turn.role
    assert isinstance(role, Prospective | Candidate)
    if not won(role.granted, voters):
        _give_up_if_lost(turn)
    elif isinstance(role, Prospective):
        become_candidate(turn, role.retries)
    elif role.retry_at_ms is None:
        become_leader(turn)


def _give_up_if_lost(turn: Turn) -> None:
    """When those left cannot be a majority, do not wait for the deadline: gridlock ends by back-off."""
    role = turn.role
    assert isinstance(role, Prospective | Candidate)
    if not lost(role.refused, turn.quorum.voters.ids):
        return
    if isinstance(role, Prospective):
        give_up(turn)
    elif role.retry_at_ms is None:
        turn.carry(retry_at_ms=turn.at.now_ms + _backoff_ms(turn, role.retries + 1))


def _counts(turn: Turn, ask: VoteAsk) -> bool:
    role = turn.role
    wanted = Prospective if ask.pre_vote else Candidate
    return isinstance(role, wanted) and role.epoch == ask.epoch


def vote_failed(turn: Turn, peer: int, ask: VoteAsk, *, dead: bool) -> None:
    """No answer: ask again after a back-off, as long as the election lasts. The dead do not vote."""
    if not _counts(turn, ask):
        return
    role = turn.role
    assert isinstance(role, Prospective | Candidate)
    _ask_again(turn, peer)
    if dead and peer not in role.granted:
        turn.carry(refused=role.refused | {peer})
        _give_up_if_lost(turn)


def _ask_again(turn: Turn, peer: int) -> None:
    role = turn.role
    assert isinstance(role, Prospective | Candidate)
    resend_at_ms = role.resend_at_ms
    if resend_at_ms is None:
        resend_at_ms = turn.at.now_ms + turn.timing.retry_backoff_ms
    turn.carry(failed=role.failed | {peer}, resend_at_ms=resend_at_ms)


def give_up(turn: Turn) -> None:
    """The pre-vote came to nothing: back to the leader we suspected, or wait for another election timeout."""
    role = turn.role
    assert isinstance(role, Prospective)
    if role.leader is not None and role.leader != turn.quorum.me.id:
        become_follower(turn, role.epoch, role.leader)
        turn.carry(bids=role.retries + 1)
    else:
        become_unattached(turn, role.epoch, turn.election_timeout())


def tick_election(turn: Turn) -> None:
    """Time for a Prospective or a Candidate: ask again where it failed, retry after a loss, give up in the end."""
    role, now_ms = turn.role, turn.at.now_ms
    assert isinstance(role, Prospective | Candidate)
    if isinstance(role, Candidate) and now_ms >= (role.deadline_ms if role.retry_at_ms is None else role.retry_at_ms):
        become_prospective(turn, role.retries + 1)
    elif isinstance(role, Prospective) and now_ms >= role.deadline_ms:
        give_up(turn)
    elif role.resend_at_ms is not None and now_ms >= role.resend_at_ms:
        again = tuple(sorted(role.failed - role.granted))
        turn.carry(failed=frozenset(), resend_at_ms=None)
        ask_votes(turn, again)


def _backoff_ms(turn: Turn, retries: int) -> int:
    """Binary exponential back-off, random, at most ``election_backoff_max_ms``."""
    span = turn.timing.retry_backoff_ms << min(retries, 10)
    return 1 + turn.roll(min(span, turn.timing.election_backoff_max_ms))


def _is_stranger(quorum: Quorum, leader: int) -> bool:
    return leader == quorum.me.id or (quorum.has_fixed_voters and leader not in quorum.voters.ids)


def begin_asked(turn: Turn, token: Any, ask: BeginAsk) -> None:
    """A leader announces itself. Coming from itself, the news makes even a doubting voter follow again."""
    quorum, role = turn.quorum, turn.role
    code = Code.NONE
    if ask.epoch < role.epoch:
        code = Code.FENCED_LEADER_EPOCH
    elif not ask.voter.fits(quorum.me):
        code = Code.INVALID_VOTER_KEY
    elif _is_stranger(quorum, ask.leader):
        code = Code.INCONSISTENT_VOTER_SET
    elif ask.epoch == role.epoch and role.leader not in (None, ask.leader):
        code = Code.INVALID_REQUEST
    else:
        learn(turn, ask.epoch, ask.leader)
        if not isinstance(turn.role, Follower):
            become_follower(turn, ask.epoch, ask.leader)
    turn.say(do.SendAnswer(token, BeginAnswer(code, turn.role.epoch, turn.quorum.leader)))


def end_asked(turn: Turn, token: Any, ask: EndAsk) -> None:
    """The leader of this epoch goes: its first successor stands at once, the others later, if need be."""
    quorum = turn.quorum
    code = Code.NONE
    if ask.epoch < turn.role.epoch:
        code = Code.FENCED_LEADER_EPOCH
    elif _is_stranger(quorum, ask.leader):
        code = Code.INCONSISTENT_VOTER_SET
    else:
        learn(turn, ask.epoch, ask.leader)
        role = turn.role
        if role.leader == ask.leader and isinstance(role, Follower | Unattached | Prospective):
            _succeed(turn, ask)
    turn.say(do.SendAnswer(token, EndAnswer(code, turn.role.epoch, turn.quorum.leader)))


def _succeed(turn: Turn, ask: EndAsk) -> None:
    quorum = turn.quorum
    places = [place for place, key in enumerate(ask.successors) if key.fits(quorum.me)]
    if places and places[0] == 0 and quorum.may_stand and not quorum.closing:
        # No pre-vote: leadership is vacant for certain.
        become_candidate(turn)
        return
    most_ms = turn.timing.election_backoff_max_ms
    delay_ms = most_ms
    if places and places[0] > 0:
        delay_ms = min(most_ms, (most_ms >> (len(ask.successors) - 1)) << (places[0] - 1))
    become_unattached(turn, turn.role.epoch, turn.at.now_ms + delay_ms + turn.roll(turn.timing.fast_death_backoff_ms))


def end_answered(turn: Turn, peer: int, ask: EndAsk, answer: EndAnswer) -> None:
    learn(turn, answer.epoch, answer.leader)
    _told(turn, peer, ask)


def end_failed(turn: Turn, peer: int, ask: EndAsk, *, dead: bool) -> None:
    """Tell it again later; a dead process needs no telling."""
    role = turn.role
    if dead:
        _told(turn, peer, ask)
    elif isinstance(role, Resigned) and role.epoch == ask.epoch:
        resend_at_ms = turn.at.now_ms + turn.timing.retry_backoff_ms
        turn.carry(failed=role.failed | {peer}, resend_at_ms=role.resend_at_ms or resend_at_ms)


def _told(turn: Turn, peer: int, ask: EndAsk) -> None:
    role = turn.role
    if isinstance(role, Resigned) and role.epoch == ask.epoch:
        turn.carry(untold=role.untold - {peer})


def tick_resigned(turn: Turn) -> None:
    """Tell again those that were not reached; at the deadline take part in elections again, in a newer epoch.

    Newer, because in its own a resigned leader could be elected a second time and write other records at the same
    places.
    """
    role, now_ms = turn.role, turn.at.now_ms
    assert isinstance(role, Resigned)
    if now_ms >= role.deadline_ms:
        become_unattached(turn, role.epoch + 1, turn.short_while())
    elif role.resend_at_ms is not None and now_ms >= role.resend_at_ms:
        for peer in sorted(role.failed & role.untold):
            turn.say(do.SendAsk(peer, EndAsk(role.epoch, role.leader, role.successors)))
        turn.carry(failed=frozenset(), resend_at_ms=None)
