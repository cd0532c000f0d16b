"""Voters of Apache Kafka and of Moldau in one quorum whose voters stand in its log (kraft.version 1, KIP-853)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kafka_peer import java_command, wait_until
from mixed import KAFKA, MOLDAU, Load, MixedPeer, dump, segments

from moldau.client.admin import describe_quorum
from moldau.client.features import describe_features
from moldau.client.sync import Cluster
from moldau.model.ids import uuid_text
from moldau.runtime.world import RealRandom

TOPIC, PARTITIONS = "t", 3
GIVEN = {"min.insync.replicas": 2, "default.replication.factor": 3, "broker.session.timeout.ms": 6000}
LOG = "00000000000000000000.log"
OTHER = {KAFKA: MOLDAU, MOLDAU: KAFKA}
pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif("MOLDAU_INTERCHANGE" not in os.environ, reason="minutes of Kafka's nodes: make interchange"),
]


class VotersInTheLog(MixedPeer):
    """Combined nodes that Kafka's tool formats as the first voters of such a quorum."""

    def __init__(self, programs: Mapping[int, str], folder: Path) -> None:
        super().__init__(programs, GIVEN, folder)
        self._directories = {node_id: uuid_text(RealRandom().uuid()) for node_id in self.ports}
        servers = ",".join(f"127.0.0.1:{controller}" for _, controller in self.ports.values())
        for node_id in self.ports:
            file = self.config_file(node_id)
            kept = [line for line in file.read_text().splitlines() if not line.startswith("controller.quorum.voters")]
            file.write_text("\n".join([*kept, f"controller.quorum.bootstrap.servers={servers}", ""]))

    def format_command(self, node_id: int) -> list[str]:
        voters = ",".join(f"{id}@127.0.0.1:{port}:{self._directories[id]}" for id, (_, port) in self.ports.items())
        wish = ["format", "-t", self.cluster_id, "-c", self.config_file(node_id), "--initial-controllers", voters]
        return java_command("kafka-storage", wish)

    def quorum(self) -> tuple[int, set[int]]:
        """Leader and voters, as the leader says; -1 and nobody while there is none."""
        with Cluster(self.bootstrap_servers) as cluster:
            _, part = cluster.run(describe_quorum(cluster.client))
        return (-1, set()) if part is None else (part.leader_id, {one.replica_id for one in part.current_voters})

    def is_removed(self, node_id: int) -> bool:
        """Ask for it once more, while it votes: a leader that is removed may be gone before its answer."""
        if node_id in self.quorum()[1]:
            wish = ("--controller-id", node_id, "--controller-directory-id", self._directories[node_id])
            self.tool("kafka-metadata-quorum", "remove-controller", *wish, check=False)
        leader, voters = self.quorum()
        return leader >= 0 and node_id not in voters

    def is_added(self, node_id: int) -> bool:
        """Ask for it once more, unless it votes: while it has not found a new leader it lags, and is refused."""
        if node_id not in self.quorum()[1]:
            wish = ("--command-config", self.config_file(node_id), "add-controller")
            self.tool("kafka-metadata-quorum", *wish, check=False)
        return node_id in self.quorum()[1]


def vote(peer: VotersInTheLog, wanted: set[int]) -> bool:
    return peer.quorum()[1] == wanted


def is_whole(peer: MixedPeer) -> bool:
    found = AdminClient({"bootstrap.servers": peer.bootstrap_servers}).list_topics(TOPIC, timeout=60).topics[TOPIC]
    return all(len(p.isrs) == 3 for p in found.partitions.values())


@pytest.mark.parametrize("programs", [(KAFKA, MOLDAU, MOLDAU), (KAFKA, KAFKA, MOLDAU)], ids=["kmm", "kkm"])
def test_voters_of_both_kinds_come_and_go_and_nothing_acknowledged_is_lost(
    tmp_path: Path, programs: tuple[str, ...]
) -> None:
    with VotersInTheLog(dict(enumerate(programs, 1)), tmp_path) as peer:
        where = peer.bootstrap_servers
        everybody = set(peer.ports)
        wait_until(partial(vote, peer, everybody), "all vote")
        with Cluster(where) as cluster:
            assert cluster.run(describe_features(cluster.client)).in_force["kraft.version"] == 1
        admin = AdminClient({"bootstrap.servers": where})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(60)
        led: set[int] = set()
        with Load(peer, TOPIC, PARTITIONS) as load:
            load.wait_for(200)
            for node_id in peer.ports:
                peer.kill(node_id)
                load.wait_for(200)
                peer.restart(node_id)
                wait_until(partial(is_whole, peer), f"node {node_id} is in sync")
            while len(led) < 2:  # of the leader, and of who leads after it
                wait_until(lambda: peer.quorum()[0] not in (-1, *led), "another leads")
                leader, _ = peer.quorum()
                led.add(leader)
                wait_until(partial(peer.is_removed, leader), f"{leader} votes no more")
                load.wait_for(100)
                wait_until(partial(peer.is_added, leader), f"{leader} votes again")
            for node_id in peer.ports:
                peer.change(node_id, OTHER[peer.programs[node_id]])
                wait_until(partial(is_whole, peer), f"node {node_id} is in sync")
                load.wait_for(100)
            wait_until(partial(vote, peer, everybody), "all vote")
        assert not load.failed
        found = load.found()
        assert sorted(found) == sorted(load.acked), "each acknowledged record is there once"
        for number in range(PARTITIONS):
            wait_until(partial(are_equal, peer, f"{TOPIC}-{number}"), "all replicas are the same")
    for node_id in peer.ports:
        said = dump(tmp_path / f"node-{node_id}" / "data" / "__cluster_metadata-0" / LOG, "--cluster-metadata-decoder")
        assert "isvalid: true" in said
        assert "isvalid: false" not in said


def are_equal(peer: MixedPeer, folder: str) -> bool:
    return len(set(segments(peer, folder).values())) == 1
