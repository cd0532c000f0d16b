"""Throttles of a plan's partitions are taken away, and nobody else's."""

from __future__ import annotations

from moldau.admin.throttles import REPLICAS, _merged, _without
from moldau.client.admin import AlterOp, Resource, ResourceType

LEADER, FOLLOWER = REPLICAS


def test_entries_of_other_partitions_and_the_brokers_they_name_stay() -> None:
    listed = {
        "a": {LEADER: ["0:1", "1:2", "0:3"], FOLLOWER: ["0:4"]},
        "b": {LEADER: ["0:3"], FOLLOWER: []},
    }
    changes, named, in_use = _without(listed, {"a": {"0"}})
    assert changes == {
        Resource(ResourceType.TOPIC, "a"): [(LEADER, AlterOp.SET, "1:2"), (FOLLOWER, AlterOp.DELETE, None)]
    }
    assert named - in_use == {"1", "4"}, "2 and 3 are still throttled for others"


def test_a_throttle_of_everything_is_somebody_elses() -> None:
    changes, named, in_use = _without({"a": {LEADER: ["*"], FOLLOWER: ["0:4"]}}, {"a": {"0"}})
    assert list(changes.values()) == [[(FOLLOWER, AlterOp.DELETE, None)]]
    assert (named, in_use) == ({"4"}, {"*"})
    assert _merged(["*"], ["0:1"]) == ["*"]
    assert _merged(["5:1"], ["0:1", "5:1"]) == ["5:1", "0:1"]
