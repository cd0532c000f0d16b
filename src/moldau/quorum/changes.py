"""Changes of the voter set (KIP-853): one voter at a time, by a leader that has committed a record of its own epoch.

Both conditions are what makes majorities of two neighbouring sets overlap: a change over an uncommitted one, or over
one that an earlier leader may have left elsewhere, could elect two leaders (Raft's single-server bug). A new voter
counts from the append on, so it must have caught up before. A leader that removed itself leads until that is committed,
without counting itself, and then resigns. Who stands and votes meanwhile: ``state.py``, ``election.py``.
"""

from __future__ import annotations

from moldau.model import NO_UUID, Code
from moldau.model.value import replace
from moldau.quorum import effects as do
from moldau.quorum.messages import (
    AddVoterRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    UpgradeVotersRequest,
    VoterChangeRequest,
    VoterChangeResponse,
)
from moldau.quorum.moves import become_resigned
from moldau.quorum.roles import Leader, Progress, VoterChange
from moldau.quorum.state import StepContext
from moldau.quorum.tally import won
from moldau.quorum.voters import ReplicaKey, Voter, VoterSet


def handle_voter_change_request(context: StepContext, token: object, request: VoterChangeRequest) -> None:
    """Begin a change, or refuse it. The response follows the commit; that to an update follows the append."""
    refused = _refusal(context, request)
    if refused is not None:
        _answer(context, token, *refused)
        return
    voters = context.quorum.voters
    match request:
        case AddVoterRequest(timeout_ms=timeout_ms):
            context.update_role(change=VoterChange(token, request, context.at.now_ms + timeout_ms))
        case RemoveVoterRequest(key, timeout_ms):
            offset = _append(context, voters.without(key.id))
            context.update_role(change=VoterChange(token, request, context.at.now_ms + timeout_ms, offset))
        case UpdateVoterRequest(voter=voter):
            if voters.voter(voter.key.id) != voter:
                _append(context, voters.with_voter(voter))
            _answer(context, token, Code.NONE)
        case UpgradeVotersRequest(timeout_ms=timeout_ms):
            offset = _append(context, _keyed(context, request.own))
            context.update_role(change=VoterChange(token, request, context.at.now_ms + timeout_ms, offset))


def _answer(context: StepContext, token: object, code: Code, message: str | None = None) -> None:
    context.emit(do.SendResponse(token, VoterChangeResponse(code, context.role.epoch, context.quorum.leader, message)))


def _refusal(context: StepContext, request: VoterChangeRequest) -> tuple[Code, str] | None:
    """Return why a change cannot begin now, checked in Kafka's order; None if it can."""
    quorum, role = context.quorum, context.role
    if not isinstance(role, Leader) or quorum.closing:
        return Code.NOT_LEADER_OR_FOLLOWER, "This node does not lead the quorum."
    if isinstance(request, UpdateVoterRequest) and request.epoch != role.epoch:
        older = request.epoch < role.epoch
        code = Code.FENCED_LEADER_EPOCH if older else Code.UNKNOWN_LEADER_EPOCH
        return code, f"The quorum is in epoch {role.epoch}, not {request.epoch}."
    if role.change is not None:
        return Code.REQUEST_TIMED_OUT, "Another change of the voters is under way."
    if role.high_watermark is None:
        return Code.REQUEST_TIMED_OUT, "The leader has not committed a record of its epoch yet."
    if isinstance(request, UpgradeVotersRequest):
        return _refusal_to_upgrade(context, role)
    if quorum.kraft_version < 1:
        return Code.UNSUPPORTED_VERSION, "The voters are set by hand: kraft.version is 0, and 1 is needed."
    if quorum.voter_log.offset >= role.high_watermark:
        return Code.REQUEST_TIMED_OUT, "The last change of the voters is not committed yet."
    refused = _refusal_of_voter(quorum.voters, request)
    if (
        refused is None
        and isinstance(request, RemoveVoterRequest)
        and not _lives_on_without(context, role, request.key.id)
    ):
        return Code.INVALID_REQUEST, "No majority of the other voters is alive: remove those that are gone first."
    return refused


def _lives_on_without(context: StepContext, role: Leader, id: int) -> bool:
    """Whether a majority of the rest has fetched lately: a removal that cannot be committed would stop the quorum."""
    oldest_ms = context.at.now_ms - context.timing.fetch_timeout_ms
    rest = context.quorum.voters.without(id)
    alive = [seen.key.id for seen in role.voters.values() if seen.last_fetch_ms > oldest_ms]
    return won([*alive, context.quorum.me.id], rest.ids)


def _refusal_of_voter(voters: VoterSet, request: VoterChangeRequest) -> tuple[Code, str] | None:
    match request:
        case AddVoterRequest(voter=voter):
            if voters.voter(voter.key.id) is not None:
                return Code.DUPLICATE_VOTER, f"Node {voter.key.id} is a voter already, of {voters.ids}."
            if voter.key.id < 0 or voter.key.directory_id == NO_UUID or not voter.endpoints:
                return Code.INVALID_REQUEST, "A voter has an id, a directory id and an endpoint."
        case RemoveVoterRequest(key=key):
            found = voters.voter(key.id)
            if found is None or found.key != key:
                return Code.VOTER_NOT_FOUND, f"Node {key.id} does not vote under this directory id."
            if len(voters.voters) == 1:
                return Code.INVALID_REQUEST, "The last voter cannot be removed."
        case UpdateVoterRequest(voter=voter):
            found = voters.voter(voter.key.id)
            if found is None or found.key != voter.key:
                return Code.VOTER_NOT_FOUND, f"Node {voter.key.id} does not vote under this directory id."
            low, high = voter.kraft_versions
            if not low <= 1 <= high or not voter.endpoints:
                return Code.INVALID_REQUEST, "A voter has an endpoint and speaks kraft.version 1."
    return None


def _refusal_to_upgrade(context: StepContext, role: Leader) -> tuple[Code, str] | None:
    if context.quorum.kraft_version >= 1:
        return Code.NONE, ""
    unknown = [seen.key.id for seen in role.voters.values() if seen.directory_id == NO_UUID]
    if unknown or context.quorum.me.directory_id == NO_UUID:
        return Code.INVALID_UPDATE_VERSION, f"The directory ids of voters {unknown} are not known: are they alive?"
    return None


def _keyed(context: StepContext, own: Voter) -> VoterSet:
    """Return the static voters, each under the directory id that it fetches with."""
    role = context.leader_role
    found = VoterSet((own,))
    for voter in context.quorum.voters.others(context.quorum.me):
        key = ReplicaKey(voter.key.id, role.voters[voter.key.id].directory_id)
        found = found.with_voter(voter._replace(key=key))
    return found


def _append(context: StepContext, voters: VoterSet) -> int:
    """Append a set and count by it from now on; return its offset."""
    quorum, role = context.quorum, context.leader_role
    upgrades = quorum.kraft_version < 1
    offset = quorum.log.end + upgrades
    context.emit(do.AppendVoters(offset, role.epoch, voters, upgrades))
    context.update(log=quorum.log.appended(offset + 1, role.epoch))
    context.appended_voters(offset, voters)
    _count_by(context, voters)
    context.emit(do.Sync())
    return offset


def _count_by(context: StepContext, voters: VoterSet) -> None:
    """Move what is known of replicas between voters and observers."""
    role, now_ms = context.leader_role, context.at.now_ms
    observers = dict(role.observers)
    counted: dict[int, Progress] = {}
    for voter in voters.others(context.quorum.me):
        seen = role.voters.get(voter.key.id)
        if seen is None or not seen.key.fits(voter.key):
            seen = observers.pop(voter.key, None) or Progress(voter.key, now_ms)
            seen = replace(seen, begin_at_ms=now_ms)
        counted[voter.key.id] = replace(seen, key=voter.key)
    for seen in role.voters.values():
        if seen.key.id not in counted:
            observers[seen.key] = replace(seen, begin_at_ms=None)
    context.update_role(voters=counted, observers=observers)


def settle_change(context: StepContext) -> None:
    """After any event, the high watermark being up to date: go on with the change, answer it, or resign by it."""
    role = context.leader_role
    change = role.change
    if change is not None:
        _go_on(context, role, change)
    if not context.quorum.is_voter and context.quorum.voter_log.offset < context.quorum.high_watermark:
        become_resigned(context)


def _go_on(context: StepContext, role: Leader, change: VoterChange) -> None:
    if change.offset is None:
        request = change.request
        assert isinstance(request, AddVoterRequest)
        if _caught_up(role, request.voter.key, change.deadline_ms - request.timeout_ms):
            change = replace(change, offset=_append(context, context.quorum.voters.with_voter(request.voter)))
            context.update_role(change=change)
            if not request.ack_when_committed:
                _finish(context, change, Code.NONE)
                return
    if change.offset is not None and (role.high_watermark or 0) > change.offset:
        _finish(context, change, Code.NONE)
    elif context.at.now_ms >= change.deadline_ms:
        why = "was not committed" if change.offset is not None else "did not begin: the new voter has not caught up"
        _finish(context, change, Code.REQUEST_TIMED_OUT, f"The change {why} in time.")


def _finish(context: StepContext, change: VoterChange, code: Code, message: str | None = None) -> None:
    context.update_role(change=None)
    _answer(context, change.token, code, message)


def _caught_up(role: Leader, key: ReplicaKey, asked_ms: int) -> bool:
    """Whether a replica has held all that this log held at some moment since the change was asked for: it lives."""
    seen = role.observers.get(key)
    return seen is not None and 0 <= asked_ms <= seen.last_caught_up_ms
