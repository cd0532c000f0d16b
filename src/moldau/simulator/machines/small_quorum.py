"""The small scope of the quorum: three voters, a record or two, a few timeouts, one crash, one lost message.

Each node's clock stands still but for the timeouts that it lives through, so the law of time (R10) is not checked here.
The search begins cold, or where a leader has just been elected and all others follow. Read next: small.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple

from moldau.quorum import At, ElectionState, Quorum, ReplicaKey, Unattached, VoterSet, deadline_ms, laws, start, step
from moldau.quorum import effects as do
from moldau.quorum import events as on
from moldau.quorum.messages import BatchSpan
from moldau.simulator.machines.quorum_world import QuorumDisk
from moldau.simulator.machines.record import RunRecord

VOTERS = VoterSet.of(0, 1, 2)
CHECKED = tuple(law for law in laws.LAWS if law is not laws.a_leader_without_a_majority_resigns)


class SmallReplica(NamedTuple):
    """One voter: its machine, what it has persisted, its log, how much of that is flushed, its clock."""

    quorum: Quorum
    persisted: ElectionState = ElectionState()
    entries: tuple[laws.Entry, ...] = ()
    flushed: int = 0
    now_ms: int = 0


class MessageInFlight(NamedTuple):
    """A request of ``asker`` to ``peer`` in flight, or (with ``answer``) its response."""

    asker: int
    peer: int
    request: Any  # Any: each request has its own kind
    answer: Any = None


class QuorumState(NamedTuple):
    """Everything, and how many of each disturbance are left."""

    replicas: tuple[SmallReplica, ...]
    messages: tuple[MessageInFlight, ...]
    history: laws.QuorumHistory
    ticks: int
    crashes: int
    losses: int
    proposals: int


class VotersScope:
    """Three voters; ``elected``: the search begins with a leader that all follow."""

    def __init__(self, *, elected: bool, ticks: int = 2, crashes: int = 1, losses: int = 1, proposals: int = 1) -> None:
        self.elected = elected
        self.left = ticks, crashes, losses, proposals

    def start(self) -> QuorumState:
        state = QuorumState((), (), laws.QuorumHistory(VOTERS.ids, 2000), 1, 0, 0, 0)
        for id in VOTERS.ids:
            quorum, effects = start(_blank(id, QuorumDisk()), ElectionState(), At(0, id))
            state = state._replace(replicas=(*state.replicas, SmallReplica(quorum)))
            state = _finish(state, id, quorum, effects)
        if self.elected:
            state = _tick(state, 0)
            for _ in range(60):
                state = next(
                    (move() for name, move in self.moves(state) if "arrives" in name or "flushes" in name), state
                )
        ticks, crashes, losses, proposals = self.left
        return state._replace(ticks=ticks, crashes=crashes, losses=losses, proposals=proposals)

    def moves(self, state: QuorumState) -> Iterable[tuple[str, Callable[[], QuorumState]]]:
        for at, message in enumerate(state.messages):
            what = type(message.request if message.answer is None else message.answer).__name__
            way = (
                f"{message.asker} to {message.peer}" if message.answer is None else f"{message.peer} to {message.asker}"
            )
            yield f"{what} {way} arrives", partial(_arrive, state, at)
            if state.losses:
                yield f"{what} {way} is lost", partial(_lose, state, at)
        for id, replica in enumerate(state.replicas):
            if replica.flushed < len(replica.entries):
                yield f"{id} flushes", partial(_flush, state, id)
            if state.ticks and deadline_ms(replica.quorum) is not None:
                yield f"{id} waits in vain", partial(_tick, state, id)
            if state.crashes:
                yield f"{id} loses power, and is back", partial(_crash, state, id)
            if state.proposals and replica.quorum.active_epoch is not None:
                yield f"propose to {id}", partial(_propose, state, id)

    def key(self, state: QuorumState) -> str:
        history = state.history
        memory = history.committed, history.leaders, sorted(history.votes.items()), sorted(history.elected_ms)
        return repr(
            (state.replicas, sorted(map(repr, state.messages)), state[3:], memory, history.exposed, history.leading)
        )


def _blank(id: int, disk: QuorumDisk) -> Quorum:
    return Quorum(me=ReplicaKey(id), voters=VOTERS, role=Unattached(0), log=disk.view())


def _feed(state: QuorumState, id: int, event: on.Event) -> QuorumState:
    replica = state.replicas[id]
    quorum, effects = step(replica.quorum, event, At(replica.now_ms, id))
    return _finish(state, id, quorum, effects)


def _finish(state: QuorumState, id: int, quorum: Quorum, effects: list[do.Effect]) -> QuorumState:
    """Carry the effects out, in order; then the laws."""
    replica, messages = state.replicas[id]._replace(quorum=quorum), list(state.messages)
    for effect in effects:
        match effect:
            case do.Persist(election):
                replica = replica._replace(persisted=election)
            case do.AppendLeaderChange(_, epoch, leader):
                replica = replica._replace(entries=(*replica.entries, (epoch, f"leader {leader}")))
            case do.AppendProposed(_, epoch, _, data):
                replica = replica._replace(entries=(*replica.entries, (epoch, data)))
            case do.AppendFetched(_, data):
                replica = replica._replace(entries=(*replica.entries, *data))
            case do.Truncate(end):
                replica = replica._replace(entries=replica.entries[:end], flushed=min(replica.flushed, end))
            case do.SendRequest(peer, request):
                messages.append(MessageInFlight(id, peer, request))
            case do.SendResponse(token, answer):
                messages.append(token._replace(answer=answer))
            case do.ServeRecords(token, answer, begin, end):
                data = replica.entries[begin:end]
                spans = tuple(BatchSpan(begin + at, begin + at + 1, epoch) for at, (epoch, _) in enumerate(data))
                messages.append(token._replace(answer=answer._replace(spans=spans, data=data)))
    history = deepcopy(state.history)
    sight = laws.Sight(
        id,
        quorum,
        replica.persisted,
        replica.flushed,
        replica.entries.__getitem__,
        {},
        effects,
        replica.now_ms,
        replica.now_ms,
    )
    RunRecord().check_all(CHECKED, history, sight)
    replicas = (*state.replicas[:id], replica, *state.replicas[id + 1 :])
    return state._replace(replicas=replicas, messages=tuple(messages), history=history)


def _without(state: QuorumState, at: int) -> tuple[MessageInFlight, QuorumState]:
    return state.messages[at], state._replace(messages=(*state.messages[:at], *state.messages[at + 1 :]))


def _arrive(state: QuorumState, at: int) -> QuorumState:
    message, state = _without(state, at)
    if message.answer is None:
        return _feed(state, message.peer, on.RequestReceived(message, message.request))
    return _feed(state, message.asker, on.ResponseReceived(message.peer, message.request, message.answer))


def _lose(state: QuorumState, at: int) -> QuorumState:
    message, state = _without(state, at)
    return _feed(state._replace(losses=state.losses - 1), message.asker, on.Unreachable(message.peer, message.request))


def _flush(state: QuorumState, id: int) -> QuorumState:
    replica = state.replicas[id]
    replica = replica._replace(flushed=len(replica.entries))
    state = state._replace(replicas=(*state.replicas[:id], replica, *state.replicas[id + 1 :]))
    return _feed(state, id, on.Flushed(replica.flushed))


def _tick(state: QuorumState, id: int) -> QuorumState:
    replica = state.replicas[id]
    due = deadline_ms(replica.quorum)
    assert due is not None
    replica = replica._replace(now_ms=max(replica.now_ms, due))
    state = state._replace(ticks=state.ticks - 1, replicas=(*state.replicas[:id], replica, *state.replicas[id + 1 :]))
    return _feed(state, id, on.Tick())


def _crash(state: QuorumState, id: int) -> QuorumState:
    """What was not flushed is gone; who waits for its responses learns that none will come."""
    replica = state.replicas[id]
    entries = replica.entries[: replica.flushed]
    lost = [message for message in state.messages if message.peer == id]
    kept = tuple(message for message in state.messages if id not in (message.peer, message.asker))
    quorum, effects = start(
        _blank(id, QuorumDisk(replica.persisted, 0, list(entries))), replica.persisted, At(replica.now_ms, id)
    )
    replicas = (*state.replicas[:id], replica._replace(entries=entries, quorum=quorum), *state.replicas[id + 1 :])
    state = state._replace(crashes=state.crashes - 1, messages=kept, replicas=replicas)
    state = _finish(state, id, quorum, effects)
    for message in lost:
        if message.asker != id:
            state = _feed(state, message.asker, on.Unreachable(message.peer, message.request))
    return state


def _propose(state: QuorumState, id: int) -> QuorumState:
    epoch = state.replicas[id].quorum.active_epoch
    assert epoch is not None
    return _feed(state._replace(proposals=state.proposals - 1), id, on.Propose(epoch, 1, "a record"))


SCOPES = {
    "quorum, two rivals": VotersScope(elected=False, ticks=2, crashes=0, losses=0, proposals=0),
    "quorum, one candidate and a crash": VotersScope(elected=False, ticks=1, crashes=1, losses=0, proposals=0),
    "quorum, elected": VotersScope(elected=True),
    "quorum, elected, no crash": VotersScope(elected=True, crashes=0, losses=0),
}
