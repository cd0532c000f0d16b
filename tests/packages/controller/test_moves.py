"""A controller that dies at any boundary of a move's phases: the next one ends the move the same.

A move is a list of requests, each answered by a decision that is committed. The controller dies before a request, after
its proposal (which is lost), or after its commit (so that only the answer is lost); whoever asked asks the next one
again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from moldau.controller.active import ActiveController
from moldau.controller.requests import (
    AlterPartition,
    AlterPartitionReassignments,
    BrokerRefused,
    ElectLeaders,
    IsrChange,
    Move,
)
from moldau.image.partition import Partition
from moldau.model import Code
from moldau.simulator.machines.controller_harness import ControllerHarness

Step = Callable[[ControllerHarness], Any]
"""From how things are now, what is asked next; None: nothing."""


def move(*replicas: int | None) -> Step:
    target = None if None in replicas else replicas
    wish = Move(topic="t", partition=0, replicas=target)  # type: ignore[arg-type]
    return lambda harness: AlterPartitionReassignments(moves=(wish,))


def joins(broker: int) -> Step:
    """The leader, whoever it is, has seen a replica catch up."""

    def submit(harness: ControllerHarness) -> Any:
        now = harness.partition("t")
        if broker not in now.replicas or broker in now.isr:
            return None
        members = (*now.isr, broker)
        change = IsrChange(
            key=now.key, leader_epoch=now.leader_epoch, partition_epoch=now.partition_epoch,
            isr=tuple((id, harness.broker(id).epoch) for id in members),
        )  # fmt: skip
        return AlterPartition(broker_id=now.leader, broker_epoch=harness.broker(now.leader).epoch, changes=(change,))

    return submit


def dies(broker: int) -> Step:
    return lambda harness: BrokerRefused(broker_id=broker, broker_epoch=harness.broker(broker).epoch)


def elect(harness: ControllerHarness) -> Any:
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


def harness() -> ControllerHarness:
    harness = ControllerHarness(8)
    harness.create("t", (1, 2, 3))
    return harness


def next_controller(harness: ControllerHarness) -> None:
    """Another node becomes active on what is committed."""
    epoch = harness.controller.epoch
    assert epoch is not None
    harness.controller.renounce()
    harness.controller = ActiveController(harness.controller.settings)
    answer = harness.controller.claim(epoch + 1, harness.image, harness.facts())
    assert answer.records == []


def ends(partition: Partition) -> dict[str, Any]:
    """How a move ended: everything but epochs, which count how often."""
    return {
        "replicas": partition.replicas, "isr": set(partition.isr), "elr": set(partition.elr),
        "adding": partition.adding, "removing": partition.removing, "leader": partition.leader,
        "directories": partition.directories,
    }  # fmt: skip


def undisturbed(steps: list[Step]) -> Partition:
    d = harness()
    for step in steps:
        request = step(d)
        if request is not None:
            d.submit(request)
    return d.partition("t")


@pytest.mark.parametrize("name", MOVES)
def test_an_undisturbed_move_ends(name: str) -> None:
    partition = undisturbed(MOVES[name])
    assert not partition.reassigning
    assert partition.leader in partition.isr
    assert set(partition.isr) | set(partition.elr) <= set(partition.replicas)


@pytest.mark.parametrize("death", ["before the request", "before the commit", "before the answer"])
@pytest.mark.parametrize("name", MOVES)
def test_a_controller_dies_at_any_boundary_and_the_move_ends_the_same(name: str, death: str) -> None:
    wanted = ends(undisturbed(MOVES[name]))
    for boundary in range(len(MOVES[name])):
        d = harness()
        for number, step in enumerate(MOVES[name]):
            request = step(d)
            if request is None:
                continue
            if number == boundary:
                if death == "before the commit":
                    d.controller.decide(request, d.facts())
                elif death == "before the answer":
                    d.submit(request)
                next_controller(d)
                request = step(d)  # who asked finds out how things are now, and asks again
                if request is None:
                    continue
            reply = d.submit(request)
            if isinstance(request, AlterPartitionReassignments):
                assert reply.partitions[0][2].code in (Code.NONE, Code.NO_REASSIGNMENT_IN_PROGRESS)
        assert ends(d.partition("t")) == wanted, f"the controller died {death} of step {boundary}"


@pytest.mark.parametrize("name", MOVES)
def test_a_controller_dies_at_every_boundary_and_the_move_ends_the_same(name: str) -> None:
    d = harness()
    for step in MOVES[name]:
        request = step(d)
        if request is not None:
            d.controller.decide(request, d.facts())
            next_controller(d)
            d.submit(request)
            next_controller(d)
    assert ends(d.partition("t")) == ends(undisturbed(MOVES[name]))
