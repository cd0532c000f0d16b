"""Laws of sharing out: everything goes to one subscriber, evenly; sticky shares change as little as they must."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from moldau.client.assignors import ASSIGNORS, Subscription, cooperative_sticky, range_, roundrobin
from moldau.model import TopicPartition

TOPICS = ["a", "b", "c"]

counts = st.fixed_dictionaries({name: st.integers(0, 7) for name in TOPICS})
names = st.lists(st.sampled_from([f"m{i}" for i in range(7)]), min_size=1, unique=True)
uniform = names.map(lambda ms: {m: Subscription(frozenset(TOPICS)) for m in ms})
mixed = names.flatmap(
    lambda ms: st.fixed_dictionaries(
        {m: st.sets(st.sampled_from(TOPICS), min_size=1).map(lambda ts: Subscription(frozenset(ts))) for m in ms}
    )
)


def wanted(members, counts):
    return {
        TopicPartition(t, i) for t in TOPICS if any(t in s.topics for s in members.values()) for i in range(counts[t])
    }


def settled(members, counts, shares=None):
    """Rebalance until nothing changes, as a cooperative group does; the rounds it took and the shares."""
    held = shares or {m: frozenset() for m in members}
    for round_number in range(1, 10):
        asked = {m: s._replace(owned=frozenset(held.get(m, ())), generation=round_number) for m, s in members.items()}
        new = {m: frozenset(share) for m, share in cooperative_sticky(asked, counts).items()}
        for member, share in new.items():  # nobody is given what another still holds
            for other, before in asked.items():
                assert other == member or not share & before.owned
        if new == {m: frozenset(held.get(m, ())) for m in members}:
            return round_number, new
        held = new
    raise AssertionError("the group never settles")


@pytest.mark.parametrize("assignor", [range_, roundrobin, cooperative_sticky])
@given(members=mixed, counts=counts)
def test_every_partition_goes_to_exactly_one_subscriber(assignor, members, counts):
    shares = assignor(members, counts)
    given_out = [p for share in shares.values() for p in share]
    assert len(given_out) == len(set(given_out))
    assert set(given_out) == wanted(members, counts)
    assert set(shares) == set(members)
    for member, share in shares.items():
        assert {p.topic for p in share} <= members[member].topics


@given(uniform, counts)
def test_equal_subscribers_get_equal_shares(members, counts):
    for assignor in (roundrobin, cooperative_sticky):
        sizes = [len(share) for share in assignor(members, counts).values()]
        assert max(sizes) - min(sizes) <= 1


@dataclass(frozen=True)
class _Metadata:
    topics: list[str]


@dataclass(frozen=True)
class _Member:
    member_id: str
    metadata: _Metadata
    group_instance_id: str | None = None


class _Cluster:
    def __init__(self, counts):
        self.counts = counts

    def partitions_for_topic(self, topic):
        return set(range(self.counts[topic])) or None


@pytest.mark.parametrize(
    ("ours", "theirs"), [(range_, RangePartitionAssignor), (roundrobin, RoundRobinPartitionAssignor)]
)
@given(members=uniform, counts=counts)
def test_range_and_roundrobin_share_as_kafka_python_does(ours, theirs, members, counts):
    shares = ours(members, counts)
    theirs_in = [_Member(m, _Metadata(sorted(s.topics))) for m, s in members.items()]
    for member, assignment in theirs.assign(_Cluster(counts), theirs_in).items():
        found = {TopicPartition(t, i) for t, indexes in assignment.assigned_partitions for i in indexes}
        assert found == set(shares[member])


@given(mixed, counts)
def test_sticky_groups_settle_and_then_stay(members, counts):
    rounds, shares = settled(members, counts)
    assert rounds <= 3
    assert set().union(*shares.values()) == wanted(members, counts)


@given(uniform, counts, st.integers(0, 6))
def test_when_a_member_leaves_the_others_keep_what_they_have(members, counts, gone):
    _, before = settled(members, counts)
    rest = dict(members)
    rest.pop(sorted(members)[gone % len(members)])
    if rest:
        _, after = settled(rest, counts, {m: before[m] for m in rest})
        assert all(before[m] <= after[m] for m in rest)


@given(uniform, counts)
def test_when_a_member_joins_partitions_move_only_to_it(members, counts):
    _, before = settled(members, counts)
    more = {**members, "new": Subscription(frozenset(TOPICS))}
    _, after = settled(more, counts, {**before, "new": frozenset()})
    assert all(after[m] <= before[m] for m in members)
    sizes = [len(share) for share in after.values()]
    assert max(sizes) - min(sizes) <= 1


def test_of_two_that_claim_a_partition_the_later_generation_holds_it():
    p = TopicPartition("a", 0)
    claims = {
        "x": Subscription(frozenset("a"), frozenset({p}), 4),
        "y": Subscription(frozenset("a"), frozenset({p}), 5),
    }
    assert cooperative_sticky(claims, {"a": 1}) == {"x": [], "y": [p]}


def test_static_members_come_first_whatever_their_member_ids():
    members = {
        "a": Subscription(frozenset("t")),
        "z": Subscription(frozenset("t"), instance_id="i"),
    }
    assert range_(members, {"t": 1}) == {"z": [TopicPartition("t", 0)], "a": []}


def test_the_names_are_kafkas():
    assert set(ASSIGNORS) == {"range", "roundrobin", "cooperative-sticky"}
