"""Feature levels of clusters that Apache Kafka made: lived with, and not promised by us."""

from __future__ import annotations

import pytest

from moldau.controller.features import CARRIED, NEWEST_LEVEL, SUPPORTED
from moldau.controller.requests import CreateTopics, FeatureUpdate, NewTopic, UpdateFeatures
from moldau.image import FeatureRange
from moldau.model import Code
from moldau.simulator.machines.controller_harness import ControllerHarness
from moldau.wire.records import metadata as records

DEFAULTS_OF_KAFKA = {
    "metadata.version": 30, "group.version": 1, "transaction.version": 2, "share.version": 1, "streams.version": 1,
    "eligible.leader.replicas.version": 1,
}  # fmt: skip
"""What Apache Kafka 4.3.1 formats a cluster with."""


def at_defaults_of_kafka() -> ControllerHarness:
    harness = ControllerHarness()
    assert harness.controller.working is not None
    for name, level in DEFAULTS_OF_KAFKA.items():
        for image in (harness.image, harness.controller.working):
            image.apply(records.FeatureLevelRecord(name=name, feature_level=level))
    return harness


def test_our_brokers_are_taken_into_a_cluster_at_kafkas_defaults() -> None:
    harness = at_defaults_of_kafka()
    assert harness.register(1, features=SUPPORTED).code is Code.NONE
    assert {one.name: one.high for one in SUPPORTED}["metadata.version"] == NEWEST_LEVEL == 30


def test_a_broker_that_lacks_a_level_is_refused_by_the_name_of_the_feature() -> None:
    harness = at_defaults_of_kafka()
    refused = harness.register(1, features=(FeatureRange("metadata.version", 23, 30),))
    assert refused.code is Code.UNSUPPORTED_VERSION
    assert "group.version" in refused.message or "eligible.leader.replicas.version" in refused.message


@pytest.mark.parametrize("feature", CARRIED, ids=lambda one: one.name)
def test_what_we_do_not_serve_is_kept_and_lowered_but_never_raised(feature: FeatureRange) -> None:
    harness = at_defaults_of_kafka()

    def update(level: int, kind: int) -> Code:
        requested = FeatureUpdate(feature=feature.name, level=level, upgrade_type=kind)
        return Code(harness.submit(UpdateFeatures(updates=(requested,))).code)

    assert update(0, 2) is Code.NONE
    assert feature.name not in harness.image.features
    assert update(feature.high, 1) is Code.INVALID_UPDATE_VERSION


@pytest.mark.parametrize(("level", "kept"), [(30, (b"d" * 16,)), (25, None)])
def test_cordoned_directories_are_noted_where_the_level_has_them(level: int, kept: tuple[bytes, ...] | None) -> None:
    harness = at_defaults_of_kafka() if level == 30 else ControllerHarness()
    harness.add_broker(1, log_dirs=(b"d" * 16,))
    harness.add_broker(2, log_dirs=(b"e" * 16,))
    assert harness.heartbeat(1, cordoned_log_dirs=(b"d" * 16,)).code is Code.NONE
    assert harness.broker(1).cordoned_log_dirs == kept
    harness.heartbeat(1, cordoned_log_dirs=(b"d" * 16,))
    assert harness.records == [], "said before"
    placed = {harness.image.partition(topic, 0).replicas for topic in [made(harness, name) for name in "abcdef"]}  # type: ignore[union-attr]
    assert placed == ({(2,)} if kept else {(1,), (2,)})


def made(harness: ControllerHarness, name: str) -> bytes:
    """A topic of one partition, placed by the controller."""
    (result,) = harness.submit(CreateTopics(topics=(NewTopic(name=name, partitions=1, replication_factor=1),))).topics
    assert result.problem.code == 0, result
    return harness.image.names[name]


@pytest.mark.parametrize(("how", "said"), [(2, "might delete metadata"), (3, "not supported")], ids=["safe", "unsafe"])
def test_metadata_version_goes_down_over_no_level_that_brought_metadata(how: int, said: str) -> None:
    """Kafka's nodes ended at their next start: what the log has could not be told in the lower level."""
    harness = at_defaults_of_kafka()
    for target in (29, 25, 23):
        requested = FeatureUpdate(feature="metadata.version", level=target, upgrade_type=how)
        refused = harness.submit(UpdateFeatures(updates=(requested,)))
        assert refused.code is Code.INVALID_UPDATE_VERSION
        assert said in refused.message


@pytest.mark.parametrize("level", [21, 22])
def test_a_cluster_of_kafka_3_9_gets_an_elr_with_the_level_that_can_hold_it(level: int) -> None:
    harness = ControllerHarness(elr=False)
    for image in (harness.image, harness.controller.working):
        assert image is not None
        image.apply(records.FeatureLevelRecord(name="metadata.version", feature_level=level))
    assert harness.register(1, features=SUPPORTED).code is Code.NONE
    elr = FeatureUpdate(feature="eligible.leader.replicas.version", level=1, upgrade_type=1)
    refused = harness.submit(UpdateFeatures(updates=(elr,)))
    assert refused.code is Code.INVALID_UPDATE_VERSION
    assert "depends on metadata.version level 23" in refused.message
    raised = FeatureUpdate(feature="metadata.version", level=25, upgrade_type=1)
    assert harness.submit(UpdateFeatures(updates=(raised, elr))).code is Code.NONE
    assert harness.image.features["eligible.leader.replicas.version"] == 1
