"""Selectors against their table, row by row and, in the small, exhaustively."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations, product

import pytest

from moldau.controller import change
from moldau.controller.requests import (
    AlterPartitionReassignments,
    BrokerRefused,
    ElectionType,
    ElectLeaders,
    Move,
)
from moldau.controller.selectors import (
    Candidates,
    ElectionResult,
    Refusal,
    elect,
    elect_for_shutdown,
    elect_offline,
    elect_preferred,
    elect_reassigned,
    no_op,
)
from moldau.image import NO_LEADER
from moldau.simulator.machines.controller_harness import ControllerHarness


def live(*ids: int):  # type: ignore[no-untyped-def]
    return lambda id: id in ids


def test_no_op_leaves_things_as_they_are() -> None:
    assert no_op(3, [3, 4]) == ElectionResult(3, (3, 4))


@pytest.mark.parametrize(
    ("assigned", "isr", "alive", "unclean", "result"),
    [
        ((1, 2, 3), (1, 2, 3), (2, 3), False, ElectionResult(2, (2, 3))),
        ((0, 1), (0, 1), (0,), False, ElectionResult(0, (0,))),  # broker 0 is a broker
        ((1, 2, 3), (1,), (2, 3), False, Refusal.NO_LIVE_ISR),
        ((1, 2, 3), (1,), (3, 2), True, ElectionResult(2, (2,), unclean=True)),
        ((1, 2, 3), (3,), (3,), True, ElectionResult(3, (3,))),  # allowed is not done
        ((1, 2, 3), (1,), (), True, Refusal.NOBODY_LIVE),
        ((1, 2, 3), (1,), (4,), True, Refusal.NOBODY_LIVE),
    ],
)
def test_offline(assigned, isr, alive, unclean, result) -> None:  # type: ignore[no-untyped-def]
    assert elect_offline(assigned, isr, live(*alive), unclean=unclean) == result


def test_reassigned_takes_the_first_target_that_is_live_and_in_sync() -> None:
    assert elect_reassigned((4, 5, 6), (1, 2, 3, 5, 6), live(4, 5, 6)) == ElectionResult(5, (1, 2, 3, 5, 6))
    assert elect_reassigned((4, 5), (1, 4, 5), live(1)) is Refusal.NO_LIVE_ISR


def test_preferred_is_the_first_assigned_or_nobody() -> None:
    assert elect_preferred((0, 1), (1, 0), live(0, 1), current=1) == ElectionResult(0, (1, 0))
    assert elect_preferred((0, 1), (0, 1), live(0, 1), current=0) is Refusal.ALREADY_LEADS
    assert elect_preferred((0, 1), (0, 1), live(1), current=1) is Refusal.NOT_LIVE
    assert elect_preferred((0, 1), (1,), live(0, 1), current=1) is Refusal.NOT_IN_ISR


def test_shutdown_takes_one_who_stays() -> None:
    assert elect_for_shutdown((1, 2, 3), (1, 2, 3), live(1, 2, 3), leaving={1, 2}) == ElectionResult(3, (3,))
    assert elect_for_shutdown((1, 2), (1,), live(1, 2), leaving={1}) is Refusal.NONE_LEFT


def worlds():  # type: ignore[no-untyped-def]
    """Every small case: three replicas in any order, any ISR, any live set, any ELR beside it, any leader."""
    everyone = (0, 1, 2)
    for assigned in permutations(everyone):
        for flags in product((False, True), repeat=7):
            isr = tuple(r for r in assigned if flags[r])
            alive = {r for r in everyone if flags[3 + r]}
            for elr in ((), tuple(r for r in assigned if r not in isr)):
                for current in (NO_LEADER, *isr):
                    yield assigned, isr, alive, elr, current, flags[6]


def test_elect_keeps_its_promises_in_every_small_world() -> None:
    seen = 0
    for assigned, isr, alive, elr, current, unclean in worlds():
        seen += 1
        result = elect(assigned, isr, alive.__contains__, unclean=unclean, among=Candidates(current, elr, ()))
        clean = [r for r in assigned if r in alive and (r in isr if isr else r in elr)]
        if clean:
            assert isinstance(result, ElectionResult)
            assert not result.unclean
            assert result.leader == (current if current in clean else clean[0])
            assert result.isr == (isr or (result.leader,))
        elif unclean and alive:
            first = next(r for r in assigned if r in alive)
            assert result == ElectionResult(first, (first,), unclean=True)
        else:
            assert result is (Refusal.NO_LIVE_ISR if alive else Refusal.NOBODY_LIVE)
    assert seen > 2000


def test_the_last_known_leader_is_taken_only_when_nobody_else_is_eligible() -> None:
    def of(isr: tuple[int, ...], elr: tuple[int, ...], alive: set[int], last: tuple[int, ...]) -> object:
        among = Candidates(NO_LEADER, elr, last)
        return elect((1, 2, 3), isr, alive.__contains__, unclean=False, among=among)

    assert of((), (), {2}, (2,)) == ElectionResult(2, (2,), unclean=True)
    assert of((), (), {1}, (2,)) is Refusal.NO_LIVE_ISR, "not alive"
    assert of((), (), {1, 2}, (2, 3)) is Refusal.NO_LIVE_ISR, "more than one tells nothing"
    assert of((), (1,), {2}, (2,)) is Refusal.NO_LIVE_ISR, "an eligible replica is waited for"
    assert of((), (), {4}, (4,)) is Refusal.NOBODY_LIVE, "no longer a replica"


def test_in_zookeeper_mode_what_happened_chooses_the_selector(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    requested: list[str] = []
    for selector in (no_op, elect_offline, elect_reassigned, elect_preferred, elect_for_shutdown):

        def heard(*args, _real=selector, **more):  # type: ignore[no-untyped-def]
            requested.append(_real.__name__)
            return _real(*args, **more)

        monkeypatch.setattr(change, selector.__name__, heard)

    def told(what: Callable[[], object]) -> tuple[list[str], int]:
        requested.clear()
        what()
        return list(dict.fromkeys(requested)), harness.partition("t").leader

    harness = ControllerHarness(4, elr=False, zookeeper_mode=True)
    harness.create("t", (0, 1, 2))
    assert told(lambda: harness.submit(BrokerRefused(broker_id=0, broker_epoch=harness.broker(0).epoch))) == (
        ["elect_offline"], 1,
    )  # fmt: skip
    harness.heartbeat(0)
    assert told(lambda: harness.set_isr("t", 0, 0, 1, 2)) == (["no_op"], 1)
    elect_first = ElectLeaders(election_type=ElectionType.PREFERRED, partitions=(("t", 0),))
    assert told(lambda: harness.submit(elect_first)) == (["elect_preferred"], 0)
    move = AlterPartitionReassignments(moves=(Move(topic="t", partition=0, replicas=(2, 3)),))
    assert told(lambda: harness.submit(move)) == (["no_op"], 0)
    assert told(lambda: harness.set_isr("t", 0, 0, 1, 2, 3)) == (["elect_reassigned"], 2)
    assert told(lambda: harness.heartbeat(2, want_shut_down=True)) == (["elect_for_shutdown"], 3)
    assert told(lambda: harness.heartbeat(3, want_shut_down=True)) == (["elect_for_shutdown"], 3), "nobody else can"
