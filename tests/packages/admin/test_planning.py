"""Plans move no more than they must, cost no rack, use live brokers only, and made again they move nothing."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.admin.plans import Plan
from moldau.admin.reassignment.planning import GOALS, Impossible, PlanBuilder
from moldau.model import TopicPartition


def at(number: int) -> TopicPartition:
    return TopicPartition("t", number)


class Drawn(NamedTuple):
    """A cluster: replicas, live brokers with racks, bytes of partitions."""

    today: Plan
    racks: dict[int, str | None]
    sizes: dict[TopicPartition, int]


@st.composite
def clusters(
    draw: st.DrawFn, partitions: int = 20, brokers: int = 7, dead: bool = True, racks: int = 3, factor: int = 3
) -> Drawn:
    live = draw(st.lists(st.integers(0, 9), min_size=2, max_size=brokers, unique=True))
    names = [None] if racks == 0 else [chr(97 + n) for n in range(racks)]
    where = {broker: draw(st.sampled_from(names)) for broker in live}
    holders = st.sampled_from([*live, *((11, 12) if dead else ())])
    replicas = st.lists(holders, min_size=1, max_size=min(factor, len(live)), unique=True)
    today = draw(st.lists(replicas, min_size=1, max_size=partitions))
    sizes = draw(st.lists(st.integers(0, 1000), min_size=len(today), max_size=len(today)))
    return Drawn({at(n): held for n, held in enumerate(today)}, dict(where), {at(n): s for n, s in enumerate(sizes)})


def moves(before: Mapping[TopicPartition, Iterable[int]], after: Plan) -> int:
    """Replicas that have to be copied."""
    return sum(len(set(after[p]) - set(before[p])) for p in after)


def width(replicas: Iterable[int], racks: Mapping[int, str | None]) -> int:
    return len({racks[r] for r in replicas if r in racks})


def held(plan: Plan, brokers: Iterable[int]) -> dict[int, int]:
    counts = Counter(replica for replicas in plan.values() for replica in replicas)
    return {broker: counts[broker] for broker in brokers}


Wish = Callable[[PlanBuilder], None]


@st.composite
def wishes(draw: st.DrawFn, drawn: Drawn) -> Wish:
    live = sorted(drawn.racks)
    which = draw(st.sampled_from(["drain", "replace", "add", "set_rf", "balance"]))
    one = draw(st.sampled_from([*live, 11]))
    if which == "drain":
        return lambda planner: planner.drain([one])
    if which == "replace":
        other = draw(st.sampled_from([b for b in live if b != one]))
        return lambda planner: planner.replace(one, other)
    if which == "add":
        return lambda planner: planner.add([one] if one in live else live[:1])
    if which == "set_rf":
        factor = draw(st.integers(1, len(live)))
        return lambda planner: planner.set_rf(factor)
    goals = draw(st.lists(st.sampled_from(GOALS), min_size=1, unique=True))
    return lambda planner: planner.balance(goals)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_every_plan_keeps_the_rules_and_made_again_moves_nothing(data: st.DataObject) -> None:
    today, racks, sizes = drawn = data.draw(clusters())
    wish = data.draw(wishes(drawn))
    given_today = {p: list(replicas) for p, replicas in today.items()}
    planner = PlanBuilder(today, racks, sizes)
    try:
        wish(planner)
    except Impossible:
        return
    plan = planner.result()
    assert today == given_today
    assert plan.keys() == today.keys()
    for p, replicas in plan.items():
        assert len(set(replicas)) == len(replicas) > 0
        assert set(replicas) - set(today[p]) <= set(racks), "new replicas are on live brokers"
        if not set(today[p]) & set(racks):
            assert replicas == today[p], "nobody has its records"
    assert planner.changes() == {p: replicas for p, replicas in plan.items() if replicas != today[p]}
    again = PlanBuilder(plan, racks, sizes)
    wish(again)
    assert again.changes() == {}


@given(clusters(), st.data())
def test_a_drain_moves_what_the_broker_holds_and_costs_no_rack_that_could_be_kept(
    drawn: Drawn, data: st.DataObject
) -> None:
    today, racks, _ = drawn
    gone = data.draw(st.sampled_from([*sorted(racks), 11]))
    left = {b: rack for b, rack in racks.items() if b != gone}
    planner = PlanBuilder(today, racks)
    try:
        planner.drain([gone])
    except Impossible:
        assert any(len(set(replicas) - {gone}) + 1 > 0 and not set(left) - set(replicas) for replicas in today.values())
        return
    plan = planner.result()
    alive = {p: replicas for p, replicas in today.items() if set(replicas) & set(racks)}
    assert moves(today, plan) == sum(gone in replicas for replicas in alive.values())
    for p, replicas in alive.items():
        assert gone not in plan[p]
        assert [r for r in plan[p] if r in replicas] == [r for r in replicas if r != gone], "the others stay, in order"
        assert len(plan[p]) == len(replicas)
        if gone in replicas:
            stay = [r for r in replicas if r != gone]
            best = max(width([*stay, b], racks) for b in set(left) - set(stay))
            assert width(plan[p], racks) == best


@given(clusters(dead=False), st.data())
def test_a_replacement_takes_one_brokers_replicas_and_touches_no_others(drawn: Drawn, data: st.DataObject) -> None:
    today, racks, _ = drawn
    old, new = data.draw(st.lists(st.sampled_from(sorted(racks)), min_size=2, max_size=2, unique=True))
    planner = PlanBuilder(today, racks)
    try:
        planner.replace(old, new)
    except Impossible:
        return
    plan = planner.result()
    assert moves(today, plan) == sum(old in replicas for replicas in today.values())
    for p, replicas in today.items():
        if old in replicas and new not in replicas and racks[old] == racks[new]:
            assert plan[p] == [new if r == old else r for r in replicas]


@given(clusters(), st.integers(1, 5))
def test_a_replication_factor_is_met_with_as_many_copies_as_are_missing(drawn: Drawn, factor: int) -> None:
    today, racks, _ = drawn
    planner = PlanBuilder(today, racks)
    if factor > len(racks):
        with pytest.raises(Impossible, match=f"{len(racks)} are alive"):
            planner.set_rf(factor)
        return
    try:
        planner.set_rf(factor)
    except Impossible:
        return
    for p, replicas in planner.result().items():
        was = today[p]
        if not set(was) & set(racks):
            continue
        assert len(replicas) == factor
        assert len(set(replicas) - set(was)) == max(0, factor - len(was))
        assert any(r in racks for r in replicas), "one that has the records stays"
        if factor > len(was):
            assert replicas[: len(was)] == was
            assert width(replicas, racks) >= min(width(was, racks) + factor - len(was), len(set(racks.values())))


def assignments(today: Plan, brokers: list[int]) -> Iterable[Plan]:
    """All assignments of the same partitions, order aside."""
    options = [list(itertools.combinations(brokers, len(replicas))) for replicas in today.values()]
    for chosen in itertools.product(*options):
        yield {p: list(replicas) for p, replicas in zip(today, chosen, strict=True)}


def evened_out(today: Plan, racks: Mapping[int, str | None]) -> Plan:
    planner = PlanBuilder(today, racks)
    planner.balance(["replicas"])
    return planner.result()


def unevenness(plan: Plan, brokers: Iterable[int]) -> int:
    return sum(count**2 for count in held(plan, brokers).values())


@settings(max_examples=80, deadline=None)
@given(clusters(partitions=4, brokers=4, dead=False, racks=0))
def test_no_assignment_is_as_even_with_fewer_moves(drawn: Drawn) -> None:
    """Against all assignments there are."""
    today, racks, _ = drawn
    plan, brokers = evened_out(today, racks), sorted(racks)
    best = min((unevenness(other, brokers), moves(today, other)) for other in assignments(today, brokers))
    assert (unevenness(plan, brokers), moves(today, plan)) == best


def crowding(replicas: Iterable[int], racks: Mapping[int, str | None]) -> int:
    """The smaller, the fewer replicas are lost with one rack, and the more racks there are with one."""
    return sum(count**2 for count in Counter(racks.get(r) for r in replicas).values())


@settings(max_examples=80, deadline=None)
@given(clusters(partitions=4, brokers=4, dead=False, racks=2))
def test_no_assignment_that_crowds_no_rack_is_as_even_with_fewer_moves(drawn: Drawn) -> None:
    """Against all assignments there are that leave every partition spread over racks as well as it is."""
    today, racks, _ = drawn
    plan, brokers = evened_out(today, racks), sorted(racks)
    allowed = [
        other
        for other in assignments(today, brokers)
        if all(crowding(other[p], racks) <= crowding(today[p], racks) for p in today)
    ]
    assert (unevenness(plan, brokers), moves(today, plan)) == min(
        (unevenness(other, brokers), moves(today, other)) for other in allowed
    )


@settings(max_examples=80, deadline=None)
@given(clusters(partitions=3, brokers=6, dead=False, factor=5))
def test_racks_are_balanced_as_well_as_they_can_be_with_the_fewest_moves(drawn: Drawn) -> None:
    """Each partition against all sets of brokers: also where there are more replicas than racks, or small racks."""
    today, racks, _ = drawn
    planner = PlanBuilder(today, racks)
    planner.balance(["racks"])
    for p, replicas in planner.result().items():
        best = min(
            (crowding(other, racks), len(set(other) - set(today[p])))
            for other in itertools.combinations(sorted(racks), len(replicas))
        )
        assert (crowding(replicas, racks), len(set(replicas) - set(today[p]))) == best


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_rack_gets_more_of_a_partition_than_it_had_unless_no_other_has_a_broker_left(data: st.DataObject) -> None:
    today, racks, sizes = drawn = data.draw(clusters(dead=False, factor=5))
    wish, gone = data.draw(wishes(drawn)), data.draw(st.sampled_from(sorted(racks)))
    planner = PlanBuilder(today, racks, sizes)
    try:
        (planner.drain([gone]) if data.draw(st.booleans()) else wish(planner))
    except Impossible:
        return
    for p, replicas in planner.result().items():
        before, after = (Counter(racks[r] for r in held) for held in (today[p], replicas))
        grown = {rack for rack in after if after[rack] > max(before[rack], 1)}
        for rack in grown:
            free = {racks[b] for b in planner.targets if b not in replicas}
            assert all(after[other] + 1 >= after[rack] for other in free), "another rack had room"


IN_THREE_RACKS: dict[int, str | None] = {0: "a", 1: "a", 2: "c", 3: "a", 4: "a", 5: "b", 6: "c"}


@pytest.mark.parametrize(("old", "new"), [(0, 6), (1, 6), (0, 2), (1, 2)])
def test_a_replacement_from_a_crowded_rack_goes_to_the_empty_one_and_does_not_crowd_another(old: int, new: int) -> None:
    """Of replicas in racks a, a, c that broker of a goes to b, whoever of c is named: a, c, c would be as crowded."""
    planner = PlanBuilder({at(4): [0, 1, 2]}, IN_THREE_RACKS)
    planner.replace(old, new)
    assert planner.result() == {at(4): [5 if r == old else r for r in (0, 1, 2)]}


def test_an_added_broker_takes_nothing_from_another_rack_that_a_third_one_has_room_for() -> None:
    planner = PlanBuilder({at(n): [0, 1, 2] for n in range(14)}, IN_THREE_RACKS)
    planner.add([6])
    plan = planner.result()
    assert {tuple(replicas) for replicas in plan.values()} == {(0, 1, 2), (0, 1, 6)}, "in its own rack it takes"
    assert held(plan, [6]) == {6: 6}, "42 replicas on 7 brokers: that is its share"


@pytest.mark.parametrize("goal", ["replicas", "disk"])
def test_what_is_evened_out_goes_to_the_rack_that_has_none_before_one_that_has_some(goal: str) -> None:
    """Of a, b, b one of b's goes to c; a, a, b would be no more even over racks than before."""
    racks: dict[int, str | None] = {0: "a", 1: "a", 2: "a", 3: "a", 4: "b", 5: "b", 6: "c"}
    today = {at(0): [3, 5, 4], at(1): [4]}
    planner = PlanBuilder(today, racks, dict.fromkeys(today, 100))
    planner.balance([goal])
    assert [racks[r] for r in planner.result()[at(0)]] in (["a", "b", "c"], ["a", "c", "b"], ["a", "b", "b"])


@given(clusters(partitions=60, dead=False, racks=0))
def test_of_larger_clusters_every_broker_gets_its_share_with_the_fewest_moves(drawn: Drawn) -> None:
    today, racks, _ = drawn
    planner = PlanBuilder(today, racks)
    planner.balance(["replicas"])
    plan = planner.result()
    before, after = held(today, racks), held(plan, racks)
    low, over = divmod(sum(before.values()), len(racks))
    assert max(after.values()) - min(after.values()) <= 1
    above = sum(max(0, count - low - bool(over)) for count in before.values())
    below = sum(max(0, low - count) for count in before.values())
    assert moves(today, plan) >= max(above, below), "nobody can do with less"
    if all(len(replicas) == 1 for replicas in today.values()):
        assert moves(today, plan) == max(above, below), "where nothing is in the way, that is what it takes"


@given(clusters(dead=False), st.data())
def test_added_brokers_get_their_share_and_nothing_moves_between_the_others(drawn: Drawn, data: st.DataObject) -> None:
    today, racks, _ = drawn
    new = data.draw(st.sampled_from(sorted(racks)))
    today = {p: [r for r in replicas if r != new] or [min(set(racks) - {new})] for p, replicas in today.items()}
    planner = PlanBuilder(today, racks)
    planner.add([new])
    plan = planner.result()
    for p in today:
        assert set(plan[p]) - set(today[p]) <= {new}
        assert width(plan[p], racks) >= width(today[p], racks)
        assert len(plan[p]) == len(today[p])
    total = sum(held(today, racks).values())
    assert held(plan, racks)[new] <= -(-total // len(racks))
    if len(set(racks.values())) == 1 and all(len(replicas) == 1 for replicas in today.values()):
        assert held(plan, racks)[new] >= total // len(racks)


@settings(max_examples=80, deadline=None)
@given(clusters(partitions=5, brokers=4, dead=False))
def test_leads_are_as_even_as_they_can_be_and_no_data_moves(drawn: Drawn) -> None:
    today, racks, _ = drawn
    planner = PlanBuilder(today, racks)
    planner.balance(["leaders"])
    plan = planner.result()
    assert all(set(plan[p]) == set(today[p]) for p in today)

    def uneven(firsts: Iterable[int]) -> int:
        return sum(count**2 for count in Counter(firsts).values())

    best = min(
        (uneven(firsts), sum(a != replicas[0] for a, replicas in zip(firsts, today.values(), strict=True)))
        for firsts in itertools.product(*today.values())
    )
    found = [replicas[0] for replicas in plan.values()]
    assert uneven(found) == best[0]
    assert sum(plan[p][0] != today[p][0] for p in today) >= best[1]


@given(clusters(dead=False))
def test_racks_are_mended_with_one_move_for_each_that_is_missing(drawn: Drawn) -> None:
    today, racks, _ = drawn
    planner = PlanBuilder(today, racks)
    planner.balance(["racks"])
    plan, there = planner.result(), len(set(racks.values()))
    missing = sum(min(len(replicas), there) - width(replicas, racks) for replicas in today.values())
    assert all(width(replicas, racks) == min(len(replicas), there) for replicas in plan.values())
    assert moves(today, plan) == missing


@given(clusters(dead=False))
def test_bytes_even_out_and_counts_stay_even_where_both_are_asked_for(drawn: Drawn) -> None:
    today, racks, sizes = drawn

    def load(plan: Plan) -> list[int]:
        return [sum(sizes[p] for p, replicas in plan.items() if b in replicas) for b in racks]

    planner = PlanBuilder(today, racks, sizes)
    planner.balance(["disk"])
    plan = planner.result()
    assert sum(bytes_**2 for bytes_ in load(plan)) <= sum(bytes_**2 for bytes_ in load(today))
    assert max(load(plan)) <= max(load(today))
    assert all(width(plan[p], racks) >= width(today[p], racks) for p in today)
    both = PlanBuilder(today, dict.fromkeys(racks), sizes)
    both.balance(["replicas", "disk"])
    counts = held(both.result(), racks).values()
    assert max(counts) - min(counts) <= 1


def test_a_large_replica_is_swapped_for_a_small_one_where_all_are_to_keep_their_number() -> None:
    sizes = {at(n): 1000 if n < 4 else 10 for n in range(8)}
    planner = PlanBuilder({at(n): [1 if n < 4 else 2] for n in range(8)}, {1: "a", 2: "b"}, sizes)
    planner.balance(GOALS)
    plan = planner.result()
    assert held(plan, [1, 2]) == {1: 4, 2: 4}
    assert sum(sizes[p] for p, replicas in plan.items() if replicas == [1]) == 2020
    assert len(planner.changes()) == 4, "two swaps"


@given(clusters(dead=False, factor=1, racks=0))
def test_no_swap_is_left_that_brings_two_brokers_a_fifth_closer(drawn: Drawn) -> None:
    today, racks, sizes = drawn
    planner = PlanBuilder(today, racks, sizes)
    planner.balance(["replicas", "disk"])
    plan = planner.result()
    load = {b: sum(sizes[p] for p, replicas in plan.items() if replicas == [b]) for b in racks}
    mean = sum(load.values()) / len(load)
    for p, q in itertools.permutations(plan, 2):
        (giver,), (taker,) = plan[p], plan[q]
        gap = load[giver] - load[taker]
        uneven = load[giver] > 1.1 * mean or load[taker] < 0.9 * mean
        if giver != taker and gap > 0 and uneven:
            assert abs(gap - 2 * (sizes[p] - sizes[q])) > 0.8 * gap


def test_a_plan_says_why_there_is_none() -> None:
    with pytest.raises(Impossible, match="t-0 has 2 replicas, and there is 1 broker"):
        PlanBuilder({at(0): [1, 2]}, {1: None, 2: None}).drain([2])
    with pytest.raises(Impossible, match="broker 9 is not alive; alive are 1, 2"):
        PlanBuilder({at(0): [1, 2]}, {1: None, 2: None}).replace(1, 9)
    with pytest.raises(Impossible, match="not alive: broker 9"):
        PlanBuilder({at(0): [1, 2]}, {1: None, 2: None}).add([9])
    stuck = PlanBuilder({at(0): [9]}, {1: None})
    stuck.drain([9])
    assert (stuck.stuck, stuck.changes()) == ([at(0)], {})


def test_a_large_cluster_is_planned_in_seconds() -> None:
    today = {at(n): [n % 49, (n + 1) % 49, (n + 2) % 49] for n in range(3000)}
    planner = PlanBuilder(today, dict.fromkeys(range(50)))
    planner.add([49])
    assert moves(today, planner.result()) == 3000 * 3 // 50
