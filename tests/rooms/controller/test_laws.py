"""Any run of asks keeps the laws; and each law can fail: for every mutant of a known bug, some law speaks up."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.controller import brokers, change, failures, isr, reassignment
from moldau.controller.change import Standing, Wish
from moldau.controller.selectors import Election
from moldau.image import image as image_module
from moldau.image.partition import Partition, merged
from tests.rooms.controller.play import Play

numbers = st.integers(0, 255)
runs = st.lists(st.tuples(numbers, numbers, numbers, numbers), max_size=60)


@settings(max_examples=120)
@given(steps=runs, elr=st.booleans())
def test_any_run_of_asks_keeps_the_laws(steps: list[tuple[int, int, int, int]], elr: bool) -> None:
    Play(elr=elr).run(steps)


def seeded(seed: int, elr: bool) -> None:
    dice = random.Random(seed)
    steps = [(dice.randrange(256), dice.randrange(256), dice.randrange(256), dice.randrange(256)) for _ in range(80)]
    Play(elr=elr).run(steps)


@pytest.mark.parametrize("seed", range(30))
def test_long_runs_keep_the_laws(seed: int) -> None:
    seeded(seed, elr=seed % 3 != 0)


def many_runs() -> None:
    for seed in range(60):
        seeded(seed, elr=True)
        seeded(seed, elr=False)


# ---- mutants: what each changes, and the law that must see it


def no_bump(partition: Partition, record: Any) -> Partition:
    return merged(partition, record)._replace(leader_epoch=partition.leader_epoch)


def no_partition_epoch(partition: Partition, record: Any) -> Partition:
    return merged(partition, record)._replace(partition_epoch=partition.partition_epoch)


def stays_in_isr(view: Any, gone: Any) -> list[Any]:
    return []


def anybody_is_eligible(view: Any, partition: Any, broker_id: int, epoch: int) -> bool:
    return True


def ends_early(target: Any) -> Any:
    """KAFKA-15665: a move ends when its newcomers are in the ISR, whoever else of its target is not."""
    if not (target.adding or target.removing) or not set(target.adding) <= set(target.isr):
        return target
    replicas = tuple(r for r in target.replicas if r not in target.removing)
    left = tuple(r for r in target.isr if r not in target.removing)
    if not left:
        return target
    return target._replace(replicas=replicas, isr=left, adding=(), removing=())


def elects_anybody(assigned: Any, isr_: Any, live: Any, *, unclean: bool, among: Any = None) -> Any:
    for replica in assigned:
        if live(replica):
            return Election(replica, tuple(isr_) if replica in isr_ else (*isr_, replica))
    return None


def quietly_unclean(assigned: Any, isr_: Any, live: Any, *, unclean: bool, among: Any = None) -> Any:
    result = change_elect(assigned, isr_, live, unclean=True, among=among)
    return result._replace(unclean=False) if isinstance(result, Election) else result


change_elect = change.elect


def elr_forever(partition: Any, target: Any, directories: Any) -> Any:
    kept = tuple(r for r in partition.elr if r not in target.isr and r in target.replicas)
    return REAL_DIFFERENCE(partition, target._replace(elr=target.elr or kept), directories)


REAL_DIFFERENCE = change._difference


def elr_with_the_isr(partition: Any, target: Any, live: Any, how: Any) -> Any:
    result = REAL_ELECTED(partition, target, live, how)
    return result._replace(elr=tuple(dict.fromkeys((*target.elr, *result.isr))))


REAL_ELECTED = change._elected


def goes_at_once(view: Any, broker: Any, session: Any) -> bool:
    return True


def old_epoch(view: Any, ask: Any) -> Any:
    decision = REAL_REGISTER(view, ask)
    for record in decision.records:
        if type(record).__name__ == "RegisterBrokerRecord":
            record.broker_epoch = max(0, record.broker_epoch - 1000)
    return decision


REAL_REGISTER = brokers.register_broker


def unfenced_from_the_start(view: Any, ask: Any) -> Any:
    decision = REAL_REGISTER(view, ask)
    for record in decision.records:
        if type(record).__name__ == "RegisterBrokerRecord":
            record.fenced = False
    return decision


def target_only(partition: Partition, target: tuple[int, ...]) -> Wish:
    """Replicas replaced outright, without the union."""
    return Wish(replicas=target, adding=(), removing=())


def keys_twice(standing: Standing, keys: Any) -> list[Any]:
    return [*REAL_CHANGES(standing, list(keys)), *REAL_CHANGES(standing, list(keys))]


REAL_CHANGES = failures._changes


def forgotten_lead(self: Any, before: Partition, after: Partition) -> None:
    """The look-up of leaders is not kept."""


MUTANTS: list[tuple[str, str, Any, str, Callable[..., Any]]] = [
    ("leader epoch not bumped", "two leaders in one epoch", image_module, "merged", no_bump),
    ("partition epoch not bumped", "uncounted change", image_module, "merged", no_partition_epoch),
    (
        "a fenced broker keeps its place",
        "fenced or leaving brokers in the ISR|leader that is fenced",
        failures,
        "leave",
        stays_in_isr,
    ),
    ("no eligibility check (KIP-841, KIP-903)", "the leader saw epoch", isr, "_eligible", anybody_is_eligible),
    ("a move ends early", "ended before|in sync|dropped without a move", change, "_completed", ends_early),
    ("any live replica is elected", "unclean election|newcomer|in sync", change, "elect", elects_anybody),
    ("unclean without leave, and untold", "unclean|ISR", change, "elect", quietly_unclean),
    ("an ELR is never cleared", "ELR without need", change, "_difference", elr_forever),
    ("ELR and ISR overlap", "in ISR and ELR", change, "_elected", elr_with_the_isr),
    ("a broker may always go", "may go although", brokers, "_may_go", goes_at_once),
    ("a restart takes an older epoch", "epoch went back|under one epoch", "ledger", "register", old_epoch),
    ("a new process is trusted at once", "never had to catch up", "ledger", "register", unfenced_from_the_start),
    ("replicas are replaced outright", "dropped without a move|not being added", reassignment, "_wish", target_only),
    ("a partition changes twice in a decision", "changed twice", failures, "_changes", keys_twice),
    ("a look-up is not kept", "look-up led is wrong", "index", "_relead", forgotten_lead),
]


@pytest.mark.parametrize(("name", "words", "where", "what", "mutant"), MUTANTS, ids=[m[0] for m in MUTANTS])
def test_a_mutant_is_caught_by_a_law(
    monkeypatch: pytest.MonkeyPatch, name: str, words: str, where: Any, what: str, mutant: Any
) -> None:
    if where == "ledger":
        from moldau.controller import asks, ledger

        monkeypatch.setitem(ledger.DECISIONS, asks.RegisterBroker, mutant)
    elif where == "index":
        from moldau.image.index import Index

        monkeypatch.setattr(Index, what, mutant)
    else:
        monkeypatch.setattr(where, what, mutant)
    with pytest.raises(AssertionError, match=words):
        many_runs()
