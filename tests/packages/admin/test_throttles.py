"""What somebody else throttles stays as it was; what is ours is recorded, set, and taken away again."""

from __future__ import annotations

import json

import pytest

from moldau.admin.throttles import RATES, REPLICAS, ThrottlesSet, _wanted, merged, without
from moldau.client.admin import AlterOp, Resource, ResourceType
from moldau.model import TopicPartition

LEADER, FOLLOWER = REPLICAS
NOTHING = ThrottlesSet()


def test_leaders_are_throttled_where_replicas_are_and_followers_where_they_come() -> None:
    plan = {TopicPartition("a", 0): [3, 2], TopicPartition("b", 1): [2, 1]}
    entries, brokers = _wanted(plan, {TopicPartition("a", 0): [1, 2], TopicPartition("b", 1): [1, 2]})
    assert entries == {"a": {LEADER: ["0:1", "0:2"], FOLLOWER: ["0:3"]}}
    assert brokers == {"1", "2", "3"}


def test_only_what_nobody_has_set_is_ours() -> None:
    wanted = {"a": {LEADER: ["0:1", "0:2"], FOLLOWER: ["0:3"]}, "b": {LEADER: ["0:1"], FOLLOWER: ["0:2"]}}
    listed = {"a": {LEADER: ["0:1", "7:7"], FOLLOWER: []}, "b": {LEADER: ["*"], FOLLOWER: []}}
    made = merged(wanted, listed, {"1": {}, "2": {RATES[0]: "9"}}, rate=5, recorded=NOTHING)
    assert made.entries == {
        "a": {LEADER: ["0:2"], FOLLOWER: ["0:3"]},
        "b": {LEADER: [], FOLLOWER: ["0:2"]},
    }
    assert made.rates == {"1": dict.fromkeys(RATES, ["5"]), "2": {RATES[1]: ["5"]}}


def test_what_was_ours_stays_ours_and_gets_the_new_rate_but_not_what_somebody_has_changed() -> None:
    before = ThrottlesSet({"1": dict.fromkeys(RATES, ["5"])}, {"a": {LEADER: ["0:1"], FOLLOWER: []}})
    rates = {"1": {RATES[0]: "5", RATES[1]: "77"}}
    wanted = {"a": {LEADER: ["0:1"], FOLLOWER: []}}
    made = merged(wanted, {"a": {LEADER: ["0:1"], FOLLOWER: []}}, rates, rate=6, recorded=before)
    assert made.rates == {"1": {RATES[0]: ["5", "6"]}}
    assert made.entries["a"][LEADER] == ["0:1"]
    away = merged({}, {}, {}, rate=6, recorded=before)
    assert away == before, "of a broker that cannot be asked nothing new is known"


def test_a_rate_that_was_recorded_and_not_set_any_more_leaves_the_one_before_it_ours() -> None:
    """As when the process is killed, or the controller dies, between the record and the change."""
    first = merged({}, {}, {"1": {}}, rate=5, recorded=NOTHING)
    second = merged({}, {}, {"1": dict.fromkeys(RATES, "5")}, rate=6, recorded=first)
    third = merged({}, {}, {"1": {RATES[0]: "5", RATES[1]: "6"}}, rate=6, recorded=second)
    assert third.rates == {"1": dict.fromkeys(RATES, ["5", "6"])}


def test_entries_of_others_stay_when_ours_are_taken_away() -> None:
    listed = {"a": {LEADER: ["0:1", "1:2", "0:3"], FOLLOWER: ["0:4"]}, "b": {LEADER: ["0:3"], FOLLOWER: []}}
    changes = without(listed, {"a": {LEADER: ["0:1", "0:3", "0:9"], FOLLOWER: ["0:4"]}})
    assert changes == {
        Resource(ResourceType.TOPIC, "a"): [(LEADER, AlterOp.SUBTRACT, "0:1,0:3"), (FOLLOWER, AlterOp.DELETE, None)]
    }


def test_a_record_is_read_as_it_was_written_and_nothing_else_is() -> None:
    made = ThrottlesSet({"1": {RATES[0]: ["5", "6"]}}, {"a": {LEADER: ["0:1"]}})
    assert ThrottlesSet.from_json(json.loads(json.dumps(made.as_json()))) == made
    for other in (None, [], {}, {"rates": []}, {"rates": {"1": 5}, "entries": {}}):
        with pytest.raises(ValueError, match="throttles"):
            ThrottlesSet.from_json(other)
