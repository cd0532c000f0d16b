"""Administration through brokers of Apache Kafka 3.9 and of Moldau on one ZooKeeper: done alike, and refused alike.

In KRaft mode the same is asked of each broker by ``python -m tests.interchange``.
"""

from __future__ import annotations

import os
from itertools import chain
from pathlib import Path

import pytest
from mixed import KAFKA, MOLDAU
from mixed_zookeeper import cluster
from test_mixed_zookeeper import create
from tests.interchange.asked import administer, administer_groups, coordinators_of, refusals

from moldau.model import TopicPartition

REFUSED = {
    "0: CreateTopicsRequest": [
        "TOPIC_ALREADY_EXISTS", "INVALID_REPLICATION_FACTOR", "INVALID_TOPIC_EXCEPTION", "INVALID_CONFIG",
    ],
    "1: CreatePartitionsRequest": ["INVALID_PARTITIONS", "UNKNOWN_TOPIC_OR_PARTITION"],
    "2: IncrementalAlterConfigsRequest": ["INVALID_CONFIG"],
    "3: IncrementalAlterConfigsRequest": ["UNKNOWN_TOPIC_OR_PARTITION"],
    "4: DescribeConfigsRequest": ["UNKNOWN_TOPIC_OR_PARTITION"],
    "5: AlterPartitionReassignmentsRequest": ["INVALID_REPLICA_ASSIGNMENT"],
    "6: AlterPartitionReassignmentsRequest": ["NO_REASSIGNMENT_IN_PROGRESS"],
    "7: AlterPartitionReassignmentsRequest": ["UNKNOWN_TOPIC_OR_PARTITION"],
    "8: ElectLeadersRequest": ["ELECTION_NOT_NEEDED"],
    "9: ElectLeadersRequest": ["UNKNOWN_TOPIC_OR_PARTITION"],
    "10: DeleteTopicsRequest": ["UNKNOWN_TOPIC_OR_PARTITION"],
    "DeleteGroups": ["GROUP_ID_NOT_FOUND"],
    "DescribeGroups": ["Dead"],
}  # fmt: skip
"""What controllers of both kinds say, in that order (``refusals``)."""
pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        "MOLDAU_INTERCHANGE" not in os.environ, reason="minutes of Apache Kafka's nodes: make interchange"
    ),
]


@pytest.mark.parametrize(
    "programs",
    [(KAFKA, KAFKA, MOLDAU), (MOLDAU, MOLDAU, KAFKA)],
    ids=["a controller of kafka", "a controller of moldau"],
)
def test_topics_settings_moves_elections_and_groups_are_the_same_through_brokers_of_either_kind(
    tmp_path: Path, programs: tuple[str, ...]
) -> None:
    with cluster(tmp_path, *programs, session_ms=30_000) as peer:
        create(peer, 1, "t", [1, 2, 3])
        read = TopicPartition("t", 0)
        places = {node_id: ("127.0.0.1", port) for node_id, (port, _) in peer.ports.items()}
        for node_id, place in places.items():
            asked = chain(
                administer(place, f"through-{node_id}", sorted(places), zookeeper=True),
                administer_groups(place, f"group-{node_id}", read),
            )
            assert next(asked, None) is None, f"through broker {node_id}"
        refused = {node_id: refusals(place, "t", zookeeper=True) for node_id, place in places.items()}
        assert all(one == refused[1] for one in refused.values()), refused
        assert refused[1] == REFUSED
        groups = [f"group-{number}" for number in range(30)]
        named = [coordinators_of(place, groups) for place in places.values()]
        assert named == [named[0]] * len(named)
