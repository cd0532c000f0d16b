"""The small scope of the quorum: three voters, a record or two, a few timeouts, one crash, one lost message.

Each node's clock stands still but for the timeouts that it lives through, so the law of time (R10) is not judged here.
The search begins cold, or where a leader has just been elected and everybody follows. Read next: small.py.
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
from moldau.simulator.machines.quorum_world import Disk
from moldau.simulator.machines.record import Record

VOTERS = VoterSet.of(0, 1, 2)
JUDGED = tuple(law for law in laws.LAWS if law is not laws.a_leader_without_a_majority_resigns)


class Seat(NamedTuple):
    """One voter: its machine, what it has persisted, its log, how much of that is flushed, its clock."""

    quorum: Quorum
    persisted: ElectionState = ElectionState()
    entries: tuple[laws.Entry, ...] = ()
    flushed: int = 0
    now_ms: int = 0


class Mail(NamedTuple):
    """An ask of ``asker`` to ``peer`` under way, or (``answer``) its answer."""

    asker: int
    peer: int
    ask: Any
    answer: Any = None


class State(NamedTuple):
    """Everything, and how many of each disturbance are left."""

    seats: tuple[Seat, ...]
    mail: tuple[Mail, ...]
    history: laws.History
    ticks: int
    crashes: int
    losses: int
    proposals: int


class Voters:
    """Three voters; ``elected``: the search begins with a leader that everybody follows."""

    def __init__(self, *, elected: bool, ticks: int = 2, crashes: int = 1, losses: int = 1, proposals: int = 1) -> None:
        self.elected = elected
        self.left = ticks, crashes, losses, proposals

    def start(self) -> State:
        state = State((), (), laws.History(VOTERS.ids, 2000), 1, 0, 0, 0)
        for id in VOTERS.ids:
            quorum, effects = start(_blank(id, Disk()), ElectionState(), At(0, id))
            state = state._replace(seats=(*state.seats, Seat(quorum)))
            state = _finish(state, id, quorum, effects)
        if self.elected:
            state = _tick(state, 0)
            for _ in range(60):
                state = next(
                    (move() for name, move in self.moves(state) if "arrives" in name or "flushes" in name), state
                )
        ticks, crashes, losses, proposals = self.left
        return state._replace(ticks=ticks, crashes=crashes, losses=losses, proposals=proposals)

    def moves(self, state: State) -> Iterable[tuple[str, Callable[[], State]]]:
        for at, mail in enumerate(state.mail):
            what = type(mail.ask if mail.answer is None else mail.answer).__name__
            way = f"{mail.asker} to {mail.peer}" if mail.answer is None else f"{mail.peer} to {mail.asker}"
            yield f"{what} {way} arrives", partial(_arrive, state, at)
            if state.losses:
                yield f"{what} {way} is lost", partial(_lose, state, at)
        for id, seat in enumerate(state.seats):
            if seat.flushed < len(seat.entries):
                yield f"{id} flushes", partial(_flush, state, id)
            if state.ticks and deadline_ms(seat.quorum) is not None:
                yield f"{id} waits in vain", partial(_tick, state, id)
            if state.crashes:
                yield f"{id} loses power, and is back", partial(_crash, state, id)
            if state.proposals and seat.quorum.active_epoch is not None:
                yield f"propose to {id}", partial(_propose, state, id)

    def key(self, state: State) -> str:
        history = state.history
        memory = history.committed, history.leaders, sorted(history.votes.items()), sorted(history.elected_ms)
        return repr((state.seats, sorted(map(repr, state.mail)), state[3:], memory, history.exposed, history.leading))


def _blank(id: int, disk: Disk) -> Quorum:
    return Quorum(me=ReplicaKey(id), voters=VOTERS, role=Unattached(0), log=disk.view())


def _feed(state: State, id: int, event: on.Event) -> State:
    seat = state.seats[id]
    quorum, effects = step(seat.quorum, event, At(seat.now_ms, id))
    return _finish(state, id, quorum, effects)


def _finish(state: State, id: int, quorum: Quorum, effects: list[do.Effect]) -> State:
    """Carry the effects out, in order; then the laws."""
    seat, mail = state.seats[id]._replace(quorum=quorum), list(state.mail)
    for effect in effects:
        match effect:
            case do.Persist(election):
                seat = seat._replace(persisted=election)
            case do.AppendLeaderChange(_, epoch, leader):
                seat = seat._replace(entries=(*seat.entries, (epoch, f"leader {leader}")))
            case do.AppendProposed(_, epoch, _, data):
                seat = seat._replace(entries=(*seat.entries, (epoch, data)))
            case do.AppendFetched(_, data):
                seat = seat._replace(entries=(*seat.entries, *data))
            case do.Truncate(end):
                seat = seat._replace(entries=seat.entries[:end], flushed=min(seat.flushed, end))
            case do.SendAsk(peer, ask):
                mail.append(Mail(id, peer, ask))
            case do.SendAnswer(token, answer):
                mail.append(token._replace(answer=answer))
            case do.ServeRecords(token, answer, begin, end):
                data = seat.entries[begin:end]
                spans = tuple(BatchSpan(begin + at, begin + at + 1, epoch) for at, (epoch, _) in enumerate(data))
                mail.append(token._replace(answer=answer._replace(spans=spans, data=data)))
    history = deepcopy(state.history)
    sight = laws.Sight(
        id, quorum, seat.persisted, seat.flushed, seat.entries.__getitem__, {}, effects, seat.now_ms, seat.now_ms
    )
    Record().judge_all(JUDGED, history, sight)
    seats = (*state.seats[:id], seat, *state.seats[id + 1 :])
    return state._replace(seats=seats, mail=tuple(mail), history=history)


def _without(state: State, at: int) -> tuple[Mail, State]:
    return state.mail[at], state._replace(mail=(*state.mail[:at], *state.mail[at + 1 :]))


def _arrive(state: State, at: int) -> State:
    mail, state = _without(state, at)
    if mail.answer is None:
        return _feed(state, mail.peer, on.Asked(mail, mail.ask))
    return _feed(state, mail.asker, on.Answered(mail.peer, mail.ask, mail.answer))


def _lose(state: State, at: int) -> State:
    mail, state = _without(state, at)
    return _feed(state._replace(losses=state.losses - 1), mail.asker, on.Unreachable(mail.peer, mail.ask))


def _flush(state: State, id: int) -> State:
    seat = state.seats[id]
    seat = seat._replace(flushed=len(seat.entries))
    state = state._replace(seats=(*state.seats[:id], seat, *state.seats[id + 1 :]))
    return _feed(state, id, on.Flushed(seat.flushed))


def _tick(state: State, id: int) -> State:
    seat = state.seats[id]
    due = deadline_ms(seat.quorum)
    assert due is not None
    seat = seat._replace(now_ms=max(seat.now_ms, due))
    state = state._replace(ticks=state.ticks - 1, seats=(*state.seats[:id], seat, *state.seats[id + 1 :]))
    return _feed(state, id, on.Tick())


def _crash(state: State, id: int) -> State:
    """What was not flushed is gone; whoever waits for its answers hears that none will come."""
    seat = state.seats[id]
    entries = seat.entries[: seat.flushed]
    lost = [mail for mail in state.mail if mail.peer == id]
    kept = tuple(mail for mail in state.mail if id not in (mail.peer, mail.asker))
    quorum, effects = start(_blank(id, Disk(seat.persisted, 0, list(entries))), seat.persisted, At(seat.now_ms, id))
    seats = (*state.seats[:id], seat._replace(entries=entries, quorum=quorum), *state.seats[id + 1 :])
    state = state._replace(crashes=state.crashes - 1, mail=kept, seats=seats)
    state = _finish(state, id, quorum, effects)
    for mail in lost:
        if mail.asker != id:
            state = _feed(state, mail.asker, on.Unreachable(mail.peer, mail.ask))
    return state


def _propose(state: State, id: int) -> State:
    epoch = state.seats[id].quorum.active_epoch
    assert epoch is not None
    return _feed(state._replace(proposals=state.proposals - 1), id, on.Propose(epoch, 1, "a record"))


SCOPES = {
    "quorum, two rivals": Voters(elected=False, ticks=2, crashes=0, losses=0, proposals=0),
    "quorum, one candidate and a crash": Voters(elected=False, ticks=1, crashes=1, losses=0, proposals=0),
    "quorum, elected": Voters(elected=True),
    "quorum, elected, no crash": Voters(elected=True, crashes=0, losses=0),
}
