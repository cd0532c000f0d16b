"""A controller that dies at any boundary of a move's phases: the next one ends the move the same.

A move is a list of asks, each answered by a decision that is committed. The controller dies before an ask, after its
proposal (which is lost), or after its commit (so that only the answer is lost); whoever asked asks the next one again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from moldau.controller.active import ActiveController
from moldau.controller.asks import (
    AlterPartition,
    AlterPartitionReassignments,
    BrokerRefused,
    ElectLeaders,
    IsrChange,
    Move,
)
from moldau.image.partition import Partition
from moldau.model import Code
from moldau.simulator.machines.controller_desk import Desk

Step = Callable[[Desk], Any]
"""From how things are now, what is asked next; None: nothing."""


def move(*replicas: int | None) -> Step:
    target = None if None in replicas else replicas
    wish = Move(topic="t", partition=0, replicas=target)  # type: ignore[arg-type]
    return lambda desk: AlterPartitionReassignments(moves=(wish,))


def joins(broker: int) -> Step:
    """The leader, whoever it is, has seen a replica catch up."""

    def ask(desk: Desk) -> Any:
        now = desk.partition("t")
        if broker not in now.replicas or broker in now.isr:
            return None
        members = (*now.isr, broker)
        change = IsrChange(
            key=now.key, leader_epoch=now.leader_epoch, partition_epoch=now.partition_epoch,
            isr=tuple((id, desk.broker(id).epoch) for id in members),
        )  # fmt: skip
        return AlterPartition(broker_id=now.leader, broker_epoch=desk.broker(now.leader).epoch, changes=(change,))

    return ask


def dies(broker: int) -> Step:
    return lambda desk: BrokerRefused(broker_id=broker, broker_epoch=desk.broker(broker).epoch)


def elect(desk: Desk) -> Any:
    return ElectLeaders(election_type=0, partitions=(("t", 0),))


MOVES: dict[str, list[Step]] = {
    "to others": [move(4, 5, 6), joins(4), joins(5), joins(6)],
    "one of three": [move(1, 2, 4), joins(4)],
    "fewer": [move(2)],
    "more": [move(1, 2, 3, 4, 5), joins(4), joins(5)],
    "another order": [move(3, 2, 1), elect],
    "cancelled": [move(4, 5, 6), joins(4), move(None)],
    "changed on the way": [move(4, 5, 6), joins(4), move(4, 2, 7), joins(7)],
    "the leader dies on the way": [move(4, 5, 6), joins(4), dies(1), joins(5), joins(6)],
    "a newcomer dies on the way and another is taken": [
        move(4, 5, 6),
        joins(4),
        dies(5),
        move(4, 7, 6),
        joins(7),
        joins(6),
    ],
    "cancelled after the leader died": [move(4, 5, 6), joins(4), dies(1), move(None)],
}


def desk() -> Desk:
    desk = Desk(8)
    desk.create("t", (1, 2, 3))
    return desk


def next_controller(desk: Desk) -> None:
    """Another node becomes active on what is committed."""
    epoch = desk.controller.epoch
    assert epoch is not None
    desk.controller.renounce()
    desk.controller = ActiveController(desk.controller.settings)
    answer = desk.controller.claim(epoch + 1, desk.image, desk.facts())
    assert answer.records == []


def ends(partition: Partition) -> dict[str, Any]:
    """How a move ended: everything but epochs, which count how often."""
    return {
        "replicas": partition.replicas, "isr": set(partition.isr), "elr": set(partition.elr),
        "adding": partition.adding, "removing": partition.removing, "leader": partition.leader,
        "directories": partition.directories,
    }  # fmt: skip


def undisturbed(steps: list[Step]) -> Partition:
    d = desk()
    for step in steps:
        ask = step(d)
        if ask is not None:
            d.ask(ask)
    return d.partition("t")


@pytest.mark.parametrize("name", MOVES)
def test_an_undisturbed_move_ends(name: str) -> None:
    partition = undisturbed(MOVES[name])
    assert not partition.reassigning
    assert partition.leader in partition.isr
    assert set(partition.isr) | set(partition.elr) <= set(partition.replicas)


@pytest.mark.parametrize("death", ["before the ask", "before the commit", "before the answer"])
@pytest.mark.parametrize("name", MOVES)
def test_a_controller_dies_at_any_boundary_and_the_move_ends_the_same(name: str, death: str) -> None:
    wanted = ends(undisturbed(MOVES[name]))
    for boundary in range(len(MOVES[name])):
        d = desk()
        for number, step in enumerate(MOVES[name]):
            ask = step(d)
            if ask is None:
                continue
            if number == boundary:
                if death == "before the commit":
                    d.controller.ask(ask, d.facts())
                elif death == "before the answer":
                    d.ask(ask)
                next_controller(d)
                ask = step(d)  # who asked finds out how things are now, and asks again
                if ask is None:
                    continue
            reply = d.ask(ask)
            if isinstance(ask, AlterPartitionReassignments):
                assert reply.partitions[0][2].code in (Code.NONE, Code.NO_REASSIGNMENT_IN_PROGRESS)
        assert ends(d.partition("t")) == wanted, f"the controller died {death} of step {boundary}"


@pytest.mark.parametrize("name", MOVES)
def test_a_controller_dies_at_every_boundary_and_the_move_ends_the_same(name: str) -> None:
    d = desk()
    for step in MOVES[name]:
        ask = step(d)
        if ask is not None:
            d.controller.ask(ask, d.facts())
            next_controller(d)
            d.ask(ask)
            next_controller(d)
    assert ends(d.partition("t")) == ends(undisturbed(MOVES[name]))
