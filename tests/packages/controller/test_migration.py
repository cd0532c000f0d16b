"""What is decided while a cluster comes from ZooKeeper: nothing early, everything in parts, the end only once."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.controller import requests
from moldau.controller.facts import Facts, Settings, SoftState
from moldau.controller.features import bootstrap_records
from moldau.controller.ledger import decide
from moldau.controller.migration import MigrationState
from moldau.controller.replies import Done, Refused
from moldau.image import Endpoint, Image
from moldau.model import Code
from moldau.wire.records import metadata as records

TOPIC = bytes([7] * 16)
AT_ONCE = 20


class ControllerHarness:
    """A ledger and its image, from the first records of a cluster that comes from ZooKeeper."""

    def __init__(self) -> None:
        self.settings = Settings(cluster_id="c", migrating=True, partitions_at_once=AT_ONCE)
        self.soft = SoftState(self.settings)
        self.image = Image()
        self.image.apply_all(bootstrap_records(self.settings))

    def submit(self, request: Any) -> Any:
        """The reply, after all parts of the decision."""
        while (decision := self.part(request)).reply is None:
            request = decision.then
        return decision.reply

    def part(self, request: Any) -> Any:
        """One decision, and what is left of it."""
        decision = decide(self.image, self.soft, request, Facts(now_ms=0, next_offset=100))
        assert len(decision.records) <= self.settings.partitions_at_once + 1
        self.image.apply_all(decision.records)
        self.soft.sessions.update({id: each for id, each in decision.sessions.items() if each is not None})
        return decision

    def register(self, id: int, *, migrating: bool, epoch: int | None = None) -> Any:
        return self.submit(
            requests.RegisterBroker(
                broker_id=id,
                cluster_id="c",
                incarnation_id=bytes([id, migrating] * 8),
                endpoints=(Endpoint("PLAINTEXT", "h", 1),),
                is_migrating_zk_broker=migrating,
                previous_is_gone=True,
                broker_epoch=epoch,
            )
        )

    def serve(self, id: int) -> None:
        self.register(id, migrating=True, epoch=10 + id)
        self.submit(requests.BrokerHeartbeat(broker_id=id, broker_epoch=10 + id, metadata_offset=1000))
        assert not self.image.brokers[id].fenced

    def adopt(self) -> Any:
        partition = records.PartitionRecord(
            topic_id=TOPIC, partition_id=0, replicas=[1, 2], isr=[1, 2], leader=1, leader_epoch=4, partition_epoch=9
        )
        return self.submit(requests.AdoptCluster(records=(records.TopicRecord(name="t", topic_id=TOPIC), partition)))

    @property
    def state(self) -> MigrationState:
        return MigrationState(self.image.zk_migration_state)


def code(reply: Any) -> Code:
    assert isinstance(reply, Refused), reply
    return reply.code


def test_nothing_is_decided_and_nobody_of_the_quorums_plane_let_in_before_the_copy() -> None:
    harness = ControllerHarness()
    assert harness.state is MigrationState.PRE_MIGRATION
    assert code(harness.submit(requests.DeleteTopics(topics=("t",)))) is Code.NOT_CONTROLLER
    assert code(harness.register(1, migrating=False)) is Code.BROKER_ID_NOT_REGISTERED
    assert code(harness.submit(requests.FinishMigration())) is Code.INVALID_REQUEST


def test_everything_is_adopted_and_only_once() -> None:
    harness = ControllerHarness()
    harness.serve(1)
    assert code(harness.adopt()) is Code.BROKER_ID_NOT_REGISTERED, "broker 2 is not known"
    assert not harness.image.topics
    harness.serve(2)
    assert isinstance(harness.adopt(), Done)
    assert harness.state is MigrationState.MIGRATION
    found = harness.image.at((TOPIC, 0))
    assert (found.leader, found.leader_epoch, found.partition_epoch) == (1, 4, 9)
    assert code(harness.adopt()) is Code.INVALID_REQUEST


def test_who_is_dead_when_all_is_adopted_leads_nothing() -> None:
    harness = ControllerHarness()
    harness.serve(1)
    harness.serve(2)
    harness.submit(requests.BrokersGone(brokers=((1, 11),)))
    assert isinstance(harness.adopt(), Done)
    found = harness.image.at((TOPIC, 0))
    assert (found.leader, found.isr, found.leader_epoch) == (2, (2,), 5)


def many(partitions: int, *, id: bytes = TOPIC) -> requests.AdoptCluster:
    """A topic of so many partitions on brokers 1 and 2, led by 1, and settings of its and of the cluster's."""
    return requests.AdoptCluster(
        records=(
            records.TopicRecord(name="t", topic_id=id),
            *(
                records.PartitionRecord(
                    topic_id=id,
                    partition_id=n,
                    replicas=[1, 2],
                    isr=[1, 2],
                    leader=1,
                    leader_epoch=4,
                    partition_epoch=9,
                )
                for n in range(partitions)
            ),
            records.ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="7"),
            records.ConfigRecord(resource_type=4, resource_name="", name=f"of-{partitions}", value="7"),
        )
    )


@pytest.mark.parametrize("dead", [False, True])
def test_a_large_cluster_is_adopted_in_parts_and_led_at_the_end(dead: bool) -> None:
    harness = ControllerHarness()
    harness.serve(1)
    harness.serve(2)
    if dead:
        harness.submit(requests.BrokersGone(brokers=((1, 11),)))
    request, parts = many(10 * AT_ONCE), 0
    while (decision := harness.part(request)).reply is None:
        assert harness.state is MigrationState.PRE_MIGRATION, "it counts for nothing before its end"
        assert code(harness.submit(requests.DeleteTopics(topics=("t",)))) is Code.NOT_CONTROLLER
        request, parts = decision.then, parts + 1
    assert parts > 10
    assert harness.state is MigrationState.MIGRATION
    partitions = harness.image.topics[TOPIC].partitions
    assert len(partitions) == 10 * AT_ONCE
    assert {(p.leader, p.isr) for p in partitions.values()} == {(2, (2,)) if dead else (1, (1, 2))}


def test_nothing_is_left_of_a_copy_that_did_not_come_to_its_end() -> None:
    """Its controller died; meanwhile ZooKeeper's may have ruled again, and deleted and made what it liked."""
    harness = ControllerHarness()
    harness.serve(1)
    harness.serve(2)
    request: Any = many(3 * AT_ONCE)
    while request.at < len(request.records):
        request = harness.part(request).then
    assert len(harness.image.topics[TOPIC].partitions) == 3 * AT_ONCE
    other = bytes([8] * 16)
    assert isinstance(harness.submit(many(AT_ONCE, id=other)), Done)
    assert set(harness.image.topics) == {other}
    assert len(harness.image.topics[other].partitions) == AT_ONCE
    assert harness.image.config(2, "t") == {"retention.ms": "7"}
    assert harness.image.config(4, "") == {f"of-{AT_ONCE}": "7"}


def test_it_ends_when_nobody_is_on_zookeeper_any_more_and_then_for_good() -> None:
    harness = ControllerHarness()
    harness.serve(1)
    harness.serve(2)
    harness.adopt()
    harness.register(1, migrating=False)
    assert code(harness.submit(requests.FinishMigration())) is Code.INVALID_REQUEST
    harness.register(2, migrating=False)
    assert isinstance(harness.submit(requests.FinishMigration()), Done)
    assert harness.state is MigrationState.POST_MIGRATION
    assert code(harness.register(3, migrating=True, epoch=13)) is Code.BROKER_ID_NOT_REGISTERED


def test_no_elr_is_kept_until_the_end() -> None:
    harness = ControllerHarness()
    assert "eligible.leader.replicas.version" not in harness.image.features
    harness.serve(1)
    harness.serve(2)
    harness.adopt()
    update = requests.FeatureUpdate(feature="eligible.leader.replicas.version", level=1, upgrade_type=1)
    assert harness.submit(requests.UpdateFeatures(updates=(update,))).code is Code.INVALID_UPDATE_VERSION
