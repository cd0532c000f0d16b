"""The coverage points of the quorum machine: what was notable about a step, read off states and effects from outside.

A point that a night of seeds never reaches means that the drawn faults no longer lead there. Production code knows
nothing of them. Read next: quorum_swarm.py (which points must be reached).
"""

from __future__ import annotations

from moldau.model import Code
from moldau.quorum import Candidate, Follower, Leader, Prospective, Quorum, Resigned, Unattached
from moldau.quorum import effects as do
from moldau.quorum import events as on
from moldau.quorum.messages import (
    EndEpochRequest,
    RaftFetchRequest,
    RaftFetchResponse,
    RaftVoteRequest,
    RaftVoteResponse,
    VoterChangeResponse,
)

COVERAGE_POINTS = frozenset(
    {
        "a bid came to nothing",
        "a fetch was fenced",
        "a late answer was dropped",
        "a log was cut",
        "a log was trimmed",
        "a newer epoch deposed a leader",
        "a pre-vote was refused: the leader is heard",
        "a snapshot was installed",
        "a vote was refused",
        "an active leader lost uncommitted records",
        "an election was lost",
        "an observer found the leader",
        "check quorum resigned",
        "crashed between two effects",
        "histories parted",
        "leadership was given up",
        "started as Candidate",
        "started as Follower",
        "started as Resigned",
        "the dead leader was not waited for",
        "the first successor stood at once",
    }
)


def told(id: int, quorum: Quorum, event: on.Event | None) -> str:
    """One line of the story: who, what, and what it is now."""
    match event:
        case None:
            what = "starts"
        case on.RequestReceived(token, request):
            what = f"{type(request).__name__} from {token.node}"
        case (
            on.ResponseReceived(peer, request, _) | on.Unreachable(peer, request) | on.ConnectionRefused(peer, request)
        ):
            what = f"{type(event).__name__} {type(request).__name__} by {peer}"
        case _:
            what = type(event).__name__
    role, log = quorum.role, quorum.log
    name = type(role).__name__
    return f"{id}: {what} -> {name} {role.epoch} log {log.start}..{log.flushed}/{log.end} hw {quorum.high_watermark}"


def coverage(before: Quorum | None, after: Quorum, event: on.Event | None, effects: list[do.Effect]) -> set[str]:
    """Return the coverage points that one step reached."""
    hit = _of_voters(before, after, effects)
    for effect in effects:
        match effect:
            case do.Truncate():
                hit.add("a log was cut")
            case do.Trim():
                hit.add("a log was trimmed")
            case do.InstallSnapshot():
                hit.add("a snapshot was installed")
            case do.LostActive() if after.log.end > after.high_watermark:
                hit.add("an active leader lost uncommitted records")
            case do.SendResponse(_, RaftFetchResponse(code=Code.FENCED_LEADER_EPOCH)):
                hit.add("a fetch was fenced")
            case do.SendResponse(_, RaftFetchResponse(diverging=diverging)) if diverging is not None:
                hit.add("histories parted")
    if before is None or event is None:
        hit.add(f"started as {type(after.role).__name__}")
        return hit
    return hit | _of_roles(before, after, event) | _of_votes(after, event, effects)


def _of_roles(before: Quorum, after: Quorum, event: on.Event) -> set[str]:
    hit = set()
    match before.role, after.role:
        case Leader(), Resigned():
            hit.add("check quorum resigned" if isinstance(event, on.Tick) else "leadership was given up")
        case Leader(epoch=old), (Unattached(epoch=new) | Follower(epoch=new)) if new > old:
            hit.add("a newer epoch deposed a leader")
        case ((Follower() | Unattached() | Prospective()), (Candidate() | Leader())):
            if isinstance(event, on.RequestReceived) and isinstance(event.request, EndEpochRequest):
                hit.add("the first successor stood at once")
        case Prospective(), (Follower() | Unattached()) if isinstance(
            event, on.ResponseReceived | on.Tick | on.ConnectionRefused
        ):
            hit.add("a bid came to nothing")
        case Follower(stand_at_ms=None), Follower(stand_at_ms=int()):
            hit.add("the dead leader was not waited for")
        case Candidate(retry_at_ms=None), Candidate(retry_at_ms=int()):
            hit.add("an election was lost")
        case Unattached(), Follower() if not after.is_voter:
            hit.add("an observer found the leader")
    if isinstance(event, on.ResponseReceived) and isinstance(event.request, RaftFetchRequest):
        role = before.role
        if not isinstance(role, Follower) or role.in_flight != event.request.serial:
            hit.add("a late answer was dropped")
    return hit


def _of_voters(before: Quorum | None, after: Quorum, effects: list[do.Effect]) -> set[str]:
    """The coverage points of changes of the voter set (KIP-853)."""
    hit = set()
    for effect in effects:
        match effect:
            case do.AppendVoters(_, _, voters) if before is not None:
                more = len(voters.voters) - len(before.voters.voters)
                hit.add("a voter was added" if more > 0 else "a voter was removed" if more else "a voter moved")
                if not after.is_voter:
                    hit.add("the leader removed itself")
            case do.Truncate(end) if before is not None and before.voter_log.offset >= end:
                hit.add("a set was taken back")
            case do.InstallSnapshot() if before is not None and before.voters != after.voters:
                hit.add("a snapshot said who votes")
            case do.SendResponse(_, VoterChangeResponse(code=code)) if code is not Code.NONE:
                hit.add("a change was refused")
    led = before is not None and isinstance(before.role, Leader)
    if led and isinstance(after.role, Resigned) and not after.is_voter:
        hit.add("the removed leader resigned")
    return hit


def _of_votes(after: Quorum, event: on.Event, effects: list[do.Effect]) -> set[str]:
    hit = set()
    if isinstance(event, on.RequestReceived) and isinstance(event.request, RaftVoteRequest):
        for effect in effects:
            match effect:
                case do.SendResponse(_, RaftVoteResponse(code=Code.NONE, granted=False)):
                    if not event.request.pre_vote:
                        hit.add("a vote was refused")
                    elif isinstance(after.role, Follower) and after.role.heard:
                        hit.add("a pre-vote was refused: the leader is heard")
    return hit
