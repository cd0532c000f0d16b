"""Changing the voter set (KIP-853): one voter at a time, by a leader that has committed a record of its own epoch.

Both conditions are what makes majorities of two neighbouring sets overlap: a change over an uncommitted one, or over
one that an earlier leader may have left elsewhere, could elect two leaders (Raft's single-server bug). A new voter
counts from the append on, so it must have caught up before. A leader that removed itself leads until that is committed,
without counting itself, and then resigns. Who stands and votes meanwhile: ``state.py``, ``election.py``.
"""

from __future__ import annotations

from typing import Any

from moldau.model import NO_UUID, Code
from moldau.model.value import replace
from moldau.quorum import effects as do
from moldau.quorum.messages import (
    AddVoterAsk,
    ChangeAnswer,
    ChangeAsk,
    RemoveVoterAsk,
    UpdateVoterAsk,
    UpgradeVotersAsk,
)
from moldau.quorum.moves import become_resigned
from moldau.quorum.roles import Change, Leader, Progress
from moldau.quorum.state import Turn
from moldau.quorum.tally import won
from moldau.quorum.voters import ReplicaKey, Voter, VoterSet


def change_asked(turn: Turn, token: Any, ask: ChangeAsk) -> None:
    """Begin a change, or refuse it. The answer comes when it is committed; that to an update when it is appended."""
    refused = _refusal(turn, ask)
    if refused is not None:
        _answer(turn, token, *refused)
        return
    voters = turn.quorum.voters
    match ask:
        case AddVoterAsk(timeout_ms=timeout_ms):
            turn.carry(change=Change(token, ask, turn.at.now_ms + timeout_ms))
        case RemoveVoterAsk(key, timeout_ms):
            offset = _append(turn, voters.without(key.id))
            turn.carry(change=Change(token, ask, turn.at.now_ms + timeout_ms, offset))
        case UpdateVoterAsk(voter=voter):
            if voters.voter(voter.key.id) != voter:
                _append(turn, voters.with_voter(voter))
            _answer(turn, token, Code.NONE)
        case UpgradeVotersAsk(timeout_ms=timeout_ms):
            offset = _append(turn, _keyed(turn, ask.own))
            turn.carry(change=Change(token, ask, turn.at.now_ms + timeout_ms, offset))


def _answer(turn: Turn, token: Any, code: Code, message: str | None = None) -> None:
    turn.say(do.SendAnswer(token, ChangeAnswer(code, turn.role.epoch, turn.quorum.leader, message)))


def _refusal(turn: Turn, ask: ChangeAsk) -> tuple[Code, str] | None:
    """Why a change cannot begin now, in the order in which Kafka looks."""
    quorum, role = turn.quorum, turn.role
    if not isinstance(role, Leader) or quorum.closing:
        return Code.NOT_LEADER_OR_FOLLOWER, "This node does not lead the quorum."
    if isinstance(ask, UpdateVoterAsk) and ask.epoch != role.epoch:
        older = ask.epoch < role.epoch
        code = Code.FENCED_LEADER_EPOCH if older else Code.UNKNOWN_LEADER_EPOCH
        return code, f"The quorum is in epoch {role.epoch}, not {ask.epoch}."
    if role.change is not None:
        return Code.REQUEST_TIMED_OUT, "Another change of the voters is under way."
    if role.high_watermark is None:
        return Code.REQUEST_TIMED_OUT, "The leader has not committed a record of its epoch yet."
    if isinstance(ask, UpgradeVotersAsk):
        return _refusal_to_upgrade(turn, role)
    if quorum.kraft_version < 1:
        return Code.UNSUPPORTED_VERSION, "The voters are set by hand: kraft.version is 0, and 1 is needed."
    if quorum.voter_log.offset >= role.high_watermark:
        return Code.REQUEST_TIMED_OUT, "The last change of the voters is not committed yet."
    refused = _refusal_of_voter(quorum.voters, ask)
    if refused is None and isinstance(ask, RemoveVoterAsk) and not _lives_on_without(turn, role, ask.key.id):
        return Code.INVALID_REQUEST, "No majority of the other voters is alive: remove those that are gone first."
    return refused


def _lives_on_without(turn: Turn, role: Leader, id: int) -> bool:
    """Whether a majority of the rest has fetched lately: a removal that cannot be committed would stop the quorum."""
    oldest_ms = turn.at.now_ms - turn.timing.fetch_timeout_ms
    rest = turn.quorum.voters.without(id)
    alive = [seen.key.id for seen in role.voters.values() if seen.last_fetch_ms > oldest_ms]
    return won([*alive, turn.quorum.me.id], rest.ids)


def _refusal_of_voter(voters: VoterSet, ask: ChangeAsk) -> tuple[Code, str] | None:
    match ask:
        case AddVoterAsk(voter=voter):
            if voters.voter(voter.key.id) is not None:
                return Code.DUPLICATE_VOTER, f"Node {voter.key.id} is a voter already, of {voters.ids}."
            if voter.key.id < 0 or voter.key.directory_id == NO_UUID or not voter.endpoints:
                return Code.INVALID_REQUEST, "A voter has an id, a directory id and an endpoint."
        case RemoveVoterAsk(key=key):
            found = voters.voter(key.id)
            if found is None or found.key != key:
                return Code.VOTER_NOT_FOUND, f"Node {key.id} does not vote under this directory id."
            if len(voters.voters) == 1:
                return Code.INVALID_REQUEST, "The last voter cannot be removed."
        case UpdateVoterAsk(voter=voter):
            found = voters.voter(voter.key.id)
            if found is None or found.key != voter.key:
                return Code.VOTER_NOT_FOUND, f"Node {voter.key.id} does not vote under this directory id."
            low, high = voter.kraft_versions
            if not low <= 1 <= high or not voter.endpoints:
                return Code.INVALID_REQUEST, "A voter has an endpoint and speaks kraft.version 1."
    return None


def _refusal_to_upgrade(turn: Turn, role: Leader) -> tuple[Code, str] | None:
    if turn.quorum.kraft_version >= 1:
        return Code.NONE, ""
    unknown = [seen.key.id for seen in role.voters.values() if seen.directory_id == NO_UUID]
    if unknown or turn.quorum.me.directory_id == NO_UUID:
        return Code.INVALID_UPDATE_VERSION, f"The directory ids of voters {unknown} are not known: are they alive?"
    return None


def _keyed(turn: Turn, own: Voter) -> VoterSet:
    """The voters set by hand, each under the directory id that it fetches with."""
    role = turn.role
    assert isinstance(role, Leader)
    found = VoterSet((own,))
    for voter in turn.quorum.voters.others(turn.quorum.me):
        key = ReplicaKey(voter.key.id, role.voters[voter.key.id].directory_id)
        found = found.with_voter(voter._replace(key=key))
    return found


def _append(turn: Turn, voters: VoterSet) -> int:
    """Append a set and count by it from now on; its offset."""
    quorum, role = turn.quorum, turn.role
    assert isinstance(role, Leader)
    upgrades = quorum.kraft_version < 1
    offset = quorum.log.end + upgrades
    turn.say(do.AppendVoters(offset, role.epoch, voters, upgrades))
    turn.put(log=quorum.log.appended(offset + 1, role.epoch))
    turn.appended_voters(offset, voters)
    _count_by(turn, voters)
    turn.say(do.Sync())
    return offset


def _count_by(turn: Turn, voters: VoterSet) -> None:
    """Move what is known of replicas between voters and observers."""
    role, now_ms = turn.role, turn.at.now_ms
    assert isinstance(role, Leader)
    observers = dict(role.observers)
    counted: dict[int, Progress] = {}
    for voter in voters.others(turn.quorum.me):
        seen = role.voters.get(voter.key.id)
        if seen is None or not seen.key.fits(voter.key):
            seen = observers.pop(voter.key, None) or Progress(voter.key, now_ms)
            seen = replace(seen, begin_at_ms=now_ms)
        counted[voter.key.id] = replace(seen, key=voter.key)
    for seen in role.voters.values():
        if seen.key.id not in counted:
            observers[seen.key] = replace(seen, begin_at_ms=None)
    turn.carry(voters=counted, observers=observers)


def settle_change(turn: Turn) -> None:
    """After any event, the high watermark being up to date: go on with the change, answer it, or resign by it."""
    role = turn.role
    assert isinstance(role, Leader)
    change = role.change
    if change is not None:
        _go_on(turn, role, change)
    if not turn.quorum.is_voter and turn.quorum.voter_log.offset < turn.quorum.high_watermark:
        become_resigned(turn)


def _go_on(turn: Turn, role: Leader, change: Change) -> None:
    if change.offset is None:
        ask = change.ask
        assert isinstance(ask, AddVoterAsk)
        if _caught_up(role, ask.voter.key, change.deadline_ms - ask.timeout_ms):
            change = replace(change, offset=_append(turn, turn.quorum.voters.with_voter(ask.voter)))
            turn.carry(change=change)
            if not ask.ack_when_committed:
                _finish(turn, change, Code.NONE)
                return
    if change.offset is not None and (role.high_watermark or 0) > change.offset:
        _finish(turn, change, Code.NONE)
    elif turn.at.now_ms >= change.deadline_ms:
        why = "was not committed" if change.offset is not None else "did not begin: the new voter has not caught up"
        _finish(turn, change, Code.REQUEST_TIMED_OUT, f"The change {why} in time.")


def _finish(turn: Turn, change: Change, code: Code, message: str | None = None) -> None:
    turn.carry(change=None)
    _answer(turn, change.token, code, message)


def _caught_up(role: Leader, key: ReplicaKey, asked_ms: int) -> bool:
    """Whether a replica has held all that this log held at some moment since the change was asked for: it lives."""
    seen = role.observers.get(key)
    return seen is not None and 0 <= asked_ms <= seen.last_caught_up_ms
