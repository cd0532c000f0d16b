"""Changing settings: key by key, all or nothing for a resource, and what follows. Features, producer ids."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.controller.facts import ELR_FEATURE
from moldau.controller.requests import (
    AllocateProducerIds,
    AlterConfigs,
    BrokerRefused,
    ConfigChange,
    FeatureUpdate,
    IncrementalAlterConfigs,
    Operation,
    RegisterController,
    UpdateFeatures,
)
from moldau.image import FeatureRange
from moldau.image.configs import (
    ConfigSource,
    Setting,
    broker_setting,
    broker_synonyms,
    client_metrics_settings,
    group_settings,
    topic_setting,
    topic_settings,
    topic_value,
)
from moldau.model import Code
from moldau.simulator.machines.controller_harness import ControllerHarness
from moldau.wire.records import metadata as records

SET, DELETE, APPEND, SUBTRACT = Operation
TOPIC, BROKER, METRICS, GROUP = 2, 4, 16, 32


def alter(
    harness: ControllerHarness, kind: int, name: str, *changes: tuple[str, int, str | None], **fields: Any
) -> Code:
    resource = ConfigChange(resource_type=kind, resource_name=name, changes=changes)
    ((_, _, problem),) = harness.submit(IncrementalAlterConfigs(resources=(resource,), **fields)).resources
    return Code(problem.code)


def harness() -> ControllerHarness:
    harness = ControllerHarness(2)
    harness.create("t", (0, 1))
    return harness


def test_keys_are_set_deleted_appended_to_and_subtracted_from() -> None:
    d = harness()
    assert alter(d, TOPIC, "t", ("retention.ms", SET, "5"), ("segment.ms", SET, "6")) == Code.NONE
    assert alter(d, TOPIC, "t", ("retention.ms", DELETE, None)) == Code.NONE
    assert d.image.config(TOPIC, "t") == {"segment.ms": "6"}
    assert alter(d, TOPIC, "t", ("cleanup.policy", APPEND, "compact")) == Code.NONE
    assert d.image.config(TOPIC, "t")["cleanup.policy"] == "delete,compact", "appended to the default"
    assert alter(d, TOPIC, "t", ("cleanup.policy", APPEND, "compact")) == Code.NONE
    assert d.records == [], "nothing changed, nothing written"
    assert alter(d, TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete")) == Code.NONE
    assert d.image.config(TOPIC, "t")["cleanup.policy"] == "compact"


@pytest.mark.parametrize(
    ("kind", "name", "change", "code"),
    [
        (TOPIC, "x", ("retention.ms", SET, "1"), Code.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "t", ("retention.sm", SET, "1"), Code.INVALID_CONFIG),
        (TOPIC, "t", ("retention.ms", SET, "-5"), Code.INVALID_CONFIG),
        (TOPIC, "t", ("retention.ms", SET, None), Code.INVALID_REQUEST),
        (TOPIC, "t", ("retention.ms", APPEND, "1"), Code.INVALID_CONFIG),
        (TOPIC, "t", ("retention.ms", 9, "1"), Code.INVALID_REQUEST),
        (TOPIC, "t", ("cleanup.policy", APPEND, "shred"), Code.INVALID_CONFIG),
        (BROKER, "", ("log.retention.ms", SET, "x"), Code.INVALID_REQUEST),
        (BROKER, "", ("log.roll.ms", SET, "0"), Code.INVALID_REQUEST),
        (BROKER, "0", ("log.flush.interval.ms", SET, "-1"), Code.INVALID_REQUEST),
        (BROKER, "", ("process.roles", SET, "broker"), Code.INVALID_REQUEST),
        (BROKER, "", ("listeners", SET, "PLAINTEXT://:1"), Code.INVALID_REQUEST),
        (BROKER, "0", ("listeners", SET, "PLAINTEXT://:1"), Code.INVALID_REQUEST),
        (BROKER, "0", ("ssl.keystore.location", SET, "/k"), Code.INVALID_REQUEST),
        (BROKER, "", ("sasl.jaas.config", SET, "x"), Code.INVALID_REQUEST),
        (BROKER, "0", ("max.connections.per.ip.overrides", SET, "hostile"), Code.INVALID_REQUEST),
        (BROKER, "0", ("log.retention.ms", SUBTRACT, "1"), Code.INVALID_CONFIG),
        (BROKER, "", ("leader.replication.throttled.rate", SET, "-1"), Code.INVALID_REQUEST),
        (BROKER, "", ("no.such.key", SET, "1"), Code.INVALID_CONFIG),
        (BROKER, "", ("min.insync.replicas", DELETE, None), Code.INVALID_CONFIG),
        (BROKER, "0", ("min.insync.replicas", SET, "1"), Code.INVALID_CONFIG),
        (TOPIC, "", ("retention.ms", SET, "1"), Code.INVALID_REQUEST),
        (TOPIC, "t", ("retention.sm", DELETE, None), Code.INVALID_CONFIG),
        (BROKER, "zero", ("log.retention.ms", SET, "1"), Code.INVALID_REQUEST),
        (BROKER, "17", ("log.retention.ms", SET, "1"), Code.BROKER_ID_NOT_REGISTERED),
        (METRICS, "m", ("interval.ms", SET, "1"), Code.INVALID_REQUEST),
        (METRICS, "m", ("interval", SET, "1000"), Code.INVALID_REQUEST),
        (METRICS, "", ("interval.ms", SET, "1000"), Code.INVALID_REQUEST),
        (METRICS, "m", ("match", SET, "tea=green"), Code.INVALID_CONFIG),
        (METRICS, "m", ("match", SET, "client_id=["), Code.INVALID_CONFIG),
        (METRICS, "m", ("match", SET, "client_id"), Code.INVALID_CONFIG),
        (GROUP, "", ("consumer.session.timeout.ms", SET, "50000"), Code.INVALID_REQUEST),
        (GROUP, "g", ("session.timeout.ms", SET, "50000"), Code.INVALID_CONFIG),
        (GROUP, "g", ("consumer.session.timeout.ms", SET, "soon"), Code.INVALID_CONFIG),
        (GROUP, "g", ("consumer.session.timeout.ms", SET, "44999"), Code.INVALID_CONFIG),
        (GROUP, "g", ("consumer.session.timeout.ms", SET, "60001"), Code.INVALID_CONFIG),
        (GROUP, "g", ("streams.num.standby.replicas", SET, "3"), Code.INVALID_CONFIG),
        (GROUP, "g", ("share.delivery.count.limit", SET, "11"), Code.INVALID_CONFIG),
        (GROUP, "g", ("share.auto.offset.reset", SET, "by_duration:1h"), Code.INVALID_CONFIG),
        (8, "0", ("root", SET, "DEBUG"), Code.INVALID_REQUEST),
    ],
)
def test_a_change_that_cannot_be_is_refused(kind: int, name: str, change: Any, code: Code) -> None:
    d = harness()
    assert alter(d, kind, name, change) == code
    assert d.records == []


def test_limits_that_cross_each_other_are_refused_wherever_the_other_one_was_set() -> None:
    """No broker must be given a topic whose log it cannot configure."""
    d, least, most = harness(), "min.compaction.lag.ms", "max.compaction.lag.ms"
    assert alter(d, TOPIC, "t", (least, SET, "10"), (most, SET, "5")) == Code.INVALID_CONFIG
    assert alter(d, BROKER, "", (f"log.cleaner.{least}", SET, "10"), (f"log.cleaner.{most}", SET, "5")) == (
        Code.INVALID_REQUEST
    )
    assert alter(d, BROKER, "", (f"log.cleaner.{most}", SET, "100")) == Code.NONE
    assert alter(d, TOPIC, "t", (least, SET, "101")) == Code.INVALID_CONFIG
    assert alter(d, TOPIC, "t", (least, SET, "100")) == Code.NONE
    assert alter(d, TOPIC, "t", ("retention.ms", SET, "1")) == Code.NONE


@pytest.mark.parametrize(
    ("name", "keys", "words"),
    [
        ("0", ("node.id", "log.segment.bytes"), "Cannot update these configs dynamically: [node.id]"),
        ("", ("num.partitions", "log.retention.hours"), "dynamically: [log.retention.hours, num.partitions]"),
        ("0", ("ssl.keystore.type",), "only per-listener using the listener prefix: [ssl.keystore.type]"),
        ("", ("sasl.jaas.config",), "at default cluster level, broker id must be specified: [sasl.jaas.config]"),
        ("0", ("listeners",), "by a restart: [listeners]"),
    ],
)
def test_what_needs_a_restart_is_refused_in_kafkas_words(name: str, keys: tuple[str, ...], words: str) -> None:
    d = harness()
    changes = tuple((key, SET, "1048577") for key in keys)
    resource = ConfigChange(resource_type=BROKER, resource_name=name, changes=changes)
    for validate_only in (True, False):
        reply = d.submit(IncrementalAlterConfigs(resources=(resource,), validate_only=validate_only))
        ((_, _, problem),) = reply.resources
        assert problem.code == Code.INVALID_REQUEST
        assert problem.message.endswith(words)
        assert d.records == []


@pytest.mark.parametrize(
    ("kind", "name", "value", "source"),
    [
        (GROUP, "consumer.session.timeout.ms", "50000", ConfigSource.DYNAMIC_GROUP),
        (GROUP, "share.auto.offset.reset", "by_duration:P1DT2H", ConfigSource.DYNAMIC_GROUP),
        (METRICS, "match", "client_id=a.*, client_software_name=Java", ConfigSource.DYNAMIC_CLIENT_METRICS),
        (METRICS, "interval.ms", "100", ConfigSource.DYNAMIC_CLIENT_METRICS),
    ],
)
def test_groups_and_metrics_subscriptions_have_settings(kind: int, name: str, value: str, source: ConfigSource) -> None:
    d = harness()
    static = {"group.consumer.session.timeout.ms": "46000"}

    def now() -> Setting:
        if kind == GROUP:
            return group_settings(d.image, "x", name, static)[0]
        return client_metrics_settings(d.image, "x", name)[0]

    before = now()
    assert before.source is (ConfigSource.STATIC_BROKER if "session" in name else ConfigSource.DEFAULT)
    assert alter(d, kind, "x", (name, SET, value), validate_only=True) == Code.NONE
    assert now() == before
    assert alter(d, kind, "x", (name, SET, value)) == Code.NONE
    assert now() == (name, value, source)
    assert alter(d, kind, "x", (name, DELETE, None)) == Code.NONE
    assert now() == before


def test_a_groups_heartbeats_are_more_frequent_than_its_patience() -> None:
    d = ControllerHarness(2, static={"group.share.min.session.timeout.ms": "1000"})
    both = (("share.session.timeout.ms", SET, "6000"), ("share.heartbeat.interval.ms", SET, "6000"))
    assert alter(d, GROUP, "g", *both) == Code.INVALID_CONFIG
    assert alter(d, GROUP, "g", both[0]) == Code.NONE
    assert alter(d, GROUP, "g", both[1]) == Code.INVALID_CONFIG, "with the one that it has"


def test_a_resource_changes_as_a_whole_or_not_at_all_and_others_are_unharmed() -> None:
    d = harness()
    d.create("u", (0, 1))
    bad = ConfigChange(
        resource_type=TOPIC, resource_name="t", changes=(("segment.ms", SET, "5"), ("retention.ms", SET, "?"))
    )
    good = ConfigChange(resource_type=TOPIC, resource_name="u", changes=(("segment.ms", SET, "5"),))
    reply = d.submit(IncrementalAlterConfigs(resources=(bad, good)))
    assert [p.code for _, _, p in reply.resources] == [Code.INVALID_CONFIG, Code.NONE]
    assert (d.image.config(TOPIC, "t"), d.image.config(TOPIC, "u")) == ({}, {"segment.ms": "5"})
    reply = d.submit(IncrementalAlterConfigs(resources=(good, good)))
    assert [p.code for _, _, p in reply.resources] == [Code.INVALID_REQUEST] * 2
    assert d.records == [], "which of the two was meant?"
    assert alter(d, TOPIC, "u", ("segment.ms", SET, "6"), ("segment.ms", SET, "7")) == Code.INVALID_REQUEST
    assert alter(d, TOPIC, "u", ("segment.ms", SET, "6"), validate_only=True) == Code.NONE
    assert d.records == []


def test_a_setting_that_nobody_knows_any_more_can_be_taken_away() -> None:
    d = harness()
    d.controller.working.apply(records.ConfigRecord(resource_type=TOPIC, resource_name="t", name="old.key", value="1"))  # type: ignore[union-attr]
    d.image.apply(records.ConfigRecord(resource_type=TOPIC, resource_name="t", name="old.key", value="1"))
    assert alter(d, TOPIC, "t", ("old.key", SET, "2")) == Code.INVALID_CONFIG
    assert alter(d, TOPIC, "t", ("old.key", DELETE, None)) == Code.NONE
    assert d.image.config(TOPIC, "t") == {}


def test_the_old_request_replaces_everything() -> None:
    d = harness()
    alter(d, TOPIC, "t", ("retention.ms", SET, "5"), ("segment.ms", SET, "6"))
    resource = ConfigChange(resource_type=TOPIC, resource_name="t", changes=(("segment.ms", SET, "7"),))
    d.submit(AlterConfigs(resources=(resource,)))
    assert d.image.config(TOPIC, "t") == {"segment.ms": "7"}


def test_an_unchanged_broker_setting_is_written_again_so_that_stores_are_reloaded() -> None:
    """KAFKA-14136."""
    d = harness()
    alter(d, BROKER, "0", ("sasl.jaas.config", SET, "x"))
    assert alter(d, BROKER, "0", ("sasl.jaas.config", SET, "x")) == Code.NONE
    assert len(d.records) == 1


def test_topic_wins_over_cluster_over_file_over_default() -> None:
    d = harness()
    static = {"log.retention.hours": "1", "log.retention.minutes": "2"}

    def now() -> tuple[str | None, ConfigSource]:
        setting = topic_setting(d.image, "t", "retention.ms", static)
        return setting.value, setting.source

    assert topic_setting(d.image, "t", "retention.ms", {}).source is ConfigSource.DEFAULT
    assert now() == ("120000", ConfigSource.STATIC_BROKER), "minutes over hours"
    alter(d, BROKER, "", ("log.retention.ms", SET, "9"))
    assert now() == ("9", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    alter(d, TOPIC, "t", ("retention.ms", SET, "8"))
    assert now() == ("8", ConfigSource.DYNAMIC_TOPIC)
    chain = topic_settings(d.image, "t", "retention.ms", static)
    assert [s.source for s in chain] == [
        ConfigSource.DYNAMIC_TOPIC,
        ConfigSource.DYNAMIC_DEFAULT_BROKER,
        ConfigSource.STATIC_BROKER,
        ConfigSource.STATIC_BROKER,
        ConfigSource.DEFAULT,
    ]
    assert topic_value(d.image, "t", "retention.ms", static) == 8
    assert topic_value(d.image, "t", "retention.ms", {"log.retention.hours": "-1"}) == 8
    alter(d, TOPIC, "t", ("retention.ms", DELETE, None))
    alter(d, BROKER, "", ("log.retention.ms", DELETE, None))
    assert topic_setting(d.image, "t", "retention.ms", {"log.retention.hours": "-1"}).value == "-1"


def test_a_brokers_synonyms_stand_in_kafkas_order_by_place_first_and_then_by_name() -> None:
    d, static = harness(), {"log.retention.hours": "1", "log.retention.minutes": "2"}
    alter(d, BROKER, "", ("log.retention.ms", SET, "9"))
    alter(d, BROKER, "1", ("log.retention.ms", SET, "8"))
    assert broker_synonyms(d.image, 1, "log.retention.ms", static) == [
        ("log.retention.ms", "8", ConfigSource.DYNAMIC_BROKER),
        ("log.retention.ms", "9", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("log.retention.minutes", "2", ConfigSource.STATIC_BROKER),
        ("log.retention.hours", "1", ConfigSource.STATIC_BROKER),
        ("log.retention.hours", "168", ConfigSource.DEFAULT),
    ]
    assert [one.source for one in broker_synonyms(d.image, 1, "log.retention.hours", static)] == [
        ConfigSource.STATIC_BROKER,
        ConfigSource.DEFAULT,
    ]
    key = "leader.replication.throttled.rate"
    assert broker_synonyms(d.image, 1, key, static) == [], "it has no default: it exists only where it is set"
    alter(d, BROKER, "1", (key, SET, "5"))
    assert [one.value for one in broker_synonyms(d.image, 1, key, static)] == ["5"]


def test_one_broker_s_own_setting_wins_over_the_cluster_s() -> None:
    d = harness()
    alter(d, BROKER, "", ("num.io.threads", SET, "9"))
    alter(d, BROKER, "1", ("num.io.threads", SET, "5"))
    assert broker_setting(d.image, 1, "num.io.threads", {}).value == "5"
    assert broker_setting(d.image, 0, "num.io.threads", {}).value == "9"
    assert broker_setting(d.image, None, "num.network.threads", {}).value == "3"


def test_a_lower_min_isr_clears_the_eligible_replicas_that_it_no_longer_protects() -> None:
    d = harness()
    alter(d, TOPIC, "t", ("min.insync.replicas", SET, "2"))
    d.submit(BrokerRefused(broker_id=1, broker_epoch=d.broker(1).epoch))
    assert d.partition("t").elr == (1,)
    alter(d, TOPIC, "t", ("min.insync.replicas", SET, "1"))
    assert d.partition("t").elr == (), "from now on 0 commits alone: 1 must not lead any more"


# ---- features and producer ids


def update(harness: ControllerHarness, feature: str, level: int, kind: int = 1, **fields: Any) -> Code:
    request = UpdateFeatures(updates=(FeatureUpdate(feature=feature, level=level, upgrade_type=kind),), **fields)
    return Code(harness.submit(request).code)


def test_levels_go_up_and_down_when_asked_the_right_way() -> None:
    d = harness()
    assert d.image.features == {"metadata.version": 25, ELR_FEATURE: 1}
    assert update(d, ELR_FEATURE, 0) == Code.INVALID_UPDATE_VERSION, "down must be asked for"
    assert update(d, ELR_FEATURE, 0, 2, validate_only=True) == Code.NONE
    assert d.records == []
    assert update(d, ELR_FEATURE, 0, 2) == Code.NONE
    assert ELR_FEATURE not in d.image.features
    assert update(d, ELR_FEATURE, 1) == Code.NONE
    assert update(d, ELR_FEATURE, 2) == Code.INVALID_UPDATE_VERSION
    assert update(d, "x.version", 1) == Code.INVALID_UPDATE_VERSION
    assert update(d, "metadata.version", 24, 7) == Code.INVALID_UPDATE_VERSION


def test_turning_the_elr_on_makes_all_agree_on_min_isr_and_names_who_is_eligible() -> None:
    d = ControllerHarness(2, elr=False, static={"min.insync.replicas": "2"})
    d.create("t", (0,))
    alter(d, BROKER, "1", ("min.insync.replicas", SET, "1"))
    d.submit(BrokerRefused(broker_id=0, broker_epoch=d.broker(0).epoch))
    assert (d.partition("t").isr, d.partition("t").elr) == ((0,), ())
    assert update(d, ELR_FEATURE, 1) == Code.NONE
    assert d.image.config(BROKER, "") == {"min.insync.replicas": "2"}
    assert d.image.config(BROKER, "1") == {}
    assert (d.partition("t").isr, d.partition("t").elr) == ((), (0,))
    assert update(d, ELR_FEATURE, 0, 2) == Code.INVALID_UPDATE_VERSION, "nobody would know who may lead"
    assert update(d, ELR_FEATURE, 2, 2) == Code.INVALID_UPDATE_VERSION, "up is not down"
    d.heartbeat(0)
    assert d.partition("t").leader == 0
    assert update(d, ELR_FEATURE, 1) == Code.NONE
    assert d.records == [], "as it is"
    assert update(d, ELR_FEATURE, 0, 2) == Code.NONE


def test_no_broker_is_left_behind_and_one_bad_update_refuses_all() -> None:
    d = harness()
    d.register(
        5, features=(FeatureRange("metadata.version", 25, 25), FeatureRange(ELR_FEATURE, 1, 1)), log_dirs=(b"x" * 16,)
    )
    assert update(d, "metadata.version", 24, 2) == Code.INVALID_UPDATE_VERSION
    assert d.records == []


def test_no_controller_is_left_behind() -> None:
    d = harness()
    old = (FeatureRange("metadata.version", 25, 25), FeatureRange(ELR_FEATURE, 1, 1))
    d.submit(RegisterController(controller_id=100, incarnation_id=b"c" * 16, features=old))
    assert update(d, ELR_FEATURE, 0, 2) == Code.INVALID_UPDATE_VERSION
    new = (FeatureRange("metadata.version", 25, 25), FeatureRange(ELR_FEATURE, 0, 1))
    d.submit(RegisterController(controller_id=100, incarnation_id=b"d" * 16, features=new))
    assert update(d, ELR_FEATURE, 0, 2) == Code.NONE


def test_producer_ids_are_handed_out_in_blocks_and_once() -> None:
    d = harness()
    first = d.submit(AllocateProducerIds(broker_id=0, broker_epoch=d.broker(0).epoch))
    second = d.submit(AllocateProducerIds(broker_id=1, broker_epoch=d.broker(1).epoch))
    assert (first.start, first.length, second.start) == (0, 1000, 1000)
    assert d.image.next_producer_id == 2000
    d.controller.working.next_producer_id = 2**63 - 500  # type: ignore[union-attr]
    last = d.submit(AllocateProducerIds(broker_id=0, broker_epoch=d.broker(0).epoch))
    assert last.code == Code.UNKNOWN_SERVER_ERROR, "after the last there is none"
    assert d.submit(AllocateProducerIds(broker_id=0, broker_epoch=0)).code == Code.STALE_BROKER_EPOCH
