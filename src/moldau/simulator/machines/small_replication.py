"""The small scope of replication: two or three replicas, two records, three leader epochs, one crash, one lost message.

Time stands still: no replica lags, so the ISR changes by crashes and by catching up only. Read next: small.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from moldau.replication.roles import Role
from moldau.simulator.machines.replication_world import ReplicationNode, ReplicationSimulation


class ReplicationState(ReplicationSimulation):
    """A state with so many records, epochs, crashes and losses left."""

    records = 2
    epochs = 2
    crashes = 1
    losses = 1


class ReplicasScope:
    """``brokers`` replicas; ``setting`` limits what else may happen."""

    def __init__(self, brokers: int, min_isr: int, **setting: int) -> None:
        self.brokers, self.min_isr, self.setting = brokers, min_isr, setting

    def start(self) -> ReplicationState:
        world = ReplicationState(self.brokers, self.min_isr)
        for name, value in self.setting.items():
            setattr(world, name, value)
        for me in world.nodes:
            world.learn(me, 1)
        return world

    def moves(self, state: ReplicationState) -> Iterable[tuple[str, Callable[[], ReplicationState]]]:
        for name, action in _actions(state):
            yield name, partial(_after, state, name, action)

    def key(self, state: ReplicationState) -> str:
        nodes = [_of(node) for node in state.nodes.values()]
        down = sorted((me, node.log.entries) for me, node in state.down.items())
        left = state.records, state.epochs, state.crashes, state.losses
        controller = (
            state.controller.state,
            state.controller.brokers.registered,
            sorted(state.controller.brokers.fenced),
        )
        memory = state.memory
        return repr(
            (
                nodes,
                down,
                left,
                controller,
                len(state.controller.history),
                sorted(map(repr, state.in_flight)),
                state.parked,
                memory.committed,
                memory.shown,
                memory.writers,
                memory.leader_hw,
                state.acked,
            )
        )


def _of(node: ReplicationNode) -> Any:
    machine = node.machine
    followers = {
        broker: (one.leo, one.broker_epoch, one.last_caught_up_ms) for broker, one in sorted(machine.followers.items())
    }
    proposal = machine.proposal
    return (
        *(node.me, node.seen, node.first, node.broker_epoch, node.log.entries, node.log.epochs.entries()),
        *(machine.role, machine.leader, machine.leader_epoch, machine.partition_epoch, machine.high_watermark),
        *(machine.epoch_start, machine.isr, sorted(machine.maximal_isr), followers, machine._serial),
        None if proposal is None else (proposal.isr, proposal.waiting),
    )


def _after(state: ReplicationState, name: str, action: Callable[[ReplicationState], None]) -> ReplicationState:
    world: ReplicationState = state.copy()  # type: ignore[assignment]
    before = world.watermarks()
    action(world)
    world.done(name, before)
    return world


def _actions(state: ReplicationState) -> Iterator[tuple[str, Callable[[ReplicationState], None]]]:
    for me, node in state.nodes.items():
        if state.records and node.machine.role is Role.LEADER:
            yield f"produce to {me}", partial(_produce, me=me)
        if state.may_fetch(me) and _under_way(state, me) < 2:
            yield f"{me} fetches", partial(ReplicationState.fetch, me=me)
        end = len(state.controller.history)
        for upto in range(max(node.seen + 1, node.first), end + 1):
            yield f"{me} learns {upto}", partial(ReplicationState.learn, me=me, upto=upto)
        if state.crashes and len(state.nodes) > 1:
            yield f"{me} is killed", partial(_crash, me=me)
    for at, (kind, to, _) in enumerate(state.in_flight):
        yield f"{kind} to {to} arrives", partial(ReplicationState.deliver, at=at)
        if state.losses:
            yield f"{kind} to {to} is lost", partial(_lose, at=at)
    for me in sorted(state.down):
        yield f"{me} starts", partial(ReplicationState.restart, me=me, checkpoint=0)
    controller = state.controller
    for me in sorted(controller.brokers.fenced & state.nodes.keys()):
        if state.nodes[me].seen:
            yield f"{me} is unfenced", partial(ReplicationState.unfence, me=me)
    if state.epochs:
        for me in controller.live_isr():
            yield f"{me} is elected", partial(_elect, me=me)


def _under_way(state: ReplicationState, me: int) -> int:
    """A broker's fetches and their answers: the second may be on its way while the first lingers."""
    asks = sum(1 for kind, _, what in state.in_flight if kind == "fetch" and what.replica_id == me)
    return asks + sum(1 for kind, to, _ in state.in_flight if kind == "fetched" and to == me)


def _produce(world: ReplicationState, *, me: int) -> None:
    world.records -= 1
    world.produce(me, 1)


def _crash(world: ReplicationState, *, me: int) -> None:
    world.crashes -= 1
    world.crash(me)


def _lose(world: ReplicationState, *, at: int) -> None:
    world.losses -= 1
    world.lose(at)


def _elect(world: ReplicationState, *, me: int) -> None:
    world.epochs -= 1
    world.controller.elect(world.controller.state.isr, (me,))


SCOPES = {
    "replication, 2 replicas": ReplicasScope(2, 1),
    "replication, 3 replicas": ReplicasScope(3, 2),
    "replication, 3 replicas, no crash": ReplicasScope(3, 2, crashes=0, losses=0),
}
