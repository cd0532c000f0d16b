"""The configuration tables: defaults are allowed by their own bounds, topic keys agree with their broker synonyms."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import moldau.model
from moldau.model.broker_config import BROKER_KEYS
from moldau.model.config_key import ConfigError, ConfigKey, Kind
from moldau.model.dynamic_config import CLUSTER_WIDE, ONLY_DYNAMIC, PER_BROKER
from moldau.model.topic_config import TOPIC_KEYS

RECORDED = Path(__file__).parents[2] / "golden" / "kafka_4_3_config_keys.tsv"
"""Names, types, defaults and bounds as Apache Kafka 4.3.1 defines them (gzip levels: -1, or 1 to 9)."""

ROOM = Path(moldau.model.__file__).parent
EVERY_KEY = [*TOPIC_KEYS.values(), *BROKER_KEYS.values()]


@pytest.mark.parametrize("key", EVERY_KEY, ids=lambda key: key.name)
def test_a_default_survives_being_written_and_read(key: ConfigKey) -> None:
    if key.default is None:
        return
    assert key.parse(key.text(key.default) or "") == key.default
    assert key.doc.endswith(".")


@pytest.mark.parametrize("key", TOPIC_KEYS.values(), ids=lambda key: key.name)
def test_a_topic_key_has_the_default_of_its_broker_keys(key: ConfigKey) -> None:
    set_by = [synonym for synonym in key.synonyms if BROKER_KEYS[synonym.name].default is not None]
    if key.synonyms:
        assert set_by, "no synonym carries the default"
        value = BROKER_KEYS[set_by[-1].name].default
        assert (value * set_by[-1].factor if key.kind is Kind.LONG else value) == key.default


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("retention.ms", "-2"),
        ("retention.ms", "1_000"),
        ("retention.ms", "ten"),
        ("retention.ms", str(2**63)),
        ("cleanup.policy", "delete,shred"),
        ("cleanup.policy", "delete,delete"),
        ("preallocate", "yes"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("min.cleanable.dirty.ratio", "nan"),
        ("compression.gzip.level", "0"),
        ("segment.bytes", "1024"),
        ("leader.replication.throttled.replicas", "0:1,2"),
    ],
)
def test_a_bad_value_is_refused_with_key_value_and_what_is_allowed(name: str, text: str) -> None:
    key = TOPIC_KEYS[name]
    with pytest.raises(ConfigError, match="is expected") as refusal:
        key.parse(text)
    assert name in str(refusal.value)
    assert text in str(refusal.value)
    assert key.allowed() in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("cleanup.policy", "", ()),
        ("cleanup.policy", "compact, delete", ("compact", "delete")),
        ("retention.ms", " -1 ", -1),
        ("preallocate", "TRUE", True),
        ("leader.replication.throttled.replicas", "*", ("*",)),
        ("leader.replication.throttled.replicas", "0:1,1:2", ("0:1", "1:2")),
    ],
)
def test_a_good_value_is_read(name: str, text: str, value: object) -> None:
    assert TOPIC_KEYS[name].parse(text) == value


def recorded() -> list[dict[str, str]]:
    with RECORDED.open() as lines:
        return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


def told(key: ConfigKey) -> tuple[str, ...]:
    default = "<required>" if key.required else "<null>" if key.default is None else key.text(key.default) or ""
    low, high = ("" if bound is None else str(bound) for bound in (key.low, key.high))
    return key.kind.name, default, low, high, key.importance, str(key.internal).lower()


@pytest.mark.parametrize("row", recorded(), ids=lambda row: f"{row['table']}:{row['name']}")
def test_a_key_is_as_kafka_defines_it(row: dict[str, str]) -> None:
    key = (TOPIC_KEYS if row["table"] == "topic" else BROKER_KEYS)[row["name"]]
    kind, default, low, high, importance, internal = told(key)
    if key.kind is Kind.DOUBLE:
        assert float(default) == float(row["default"])
    else:
        assert default == row["default"]
    assert (kind, importance, internal) == (row["type"], row["importance"], row["internal"])
    if row["low"]:
        assert (float(low), high and float(high)) == (float(row["low"]), row["high"] and float(row["high"]))
    if row["table"] == "broker":
        mode = "per-broker" if key.name in PER_BROKER else "cluster-wide" if key.name in CLUSTER_WIDE else "read-only"
        assert mode == row["dynamic"]


def test_only_a_few_keys_are_not_kafka_s() -> None:
    """Some that Kafka had until 3.9, because requirements name them, and our own; and none of Kafka's is missing."""
    names = {row["name"] for row in recorded()}
    ours = {name for name in (*TOPIC_KEYS, *BROKER_KEYS) if name not in names}
    assert ours == {
        "controlled.shutdown.max.retries",
        "controlled.shutdown.retry.backoff.ms",
        "http.listener",
        "leader.imbalance.per.broker.percentage",
        "logger.file.max.age.hours",
        "logger.file.max.bytes",
        "logger.level",
        "logger.max.files",
        "logger.state.change.stdout",
        "zookeeper.connect",
        "zookeeper.connection.timeout.ms",
        "zookeeper.metadata.migration.enable",
        "zookeeper.session.timeout.ms",
    }
    assert not set(ONLY_DYNAMIC) & names


def test_a_key_that_is_said_to_have_an_effect_is_looked_at_somewhere() -> None:
    source = "".join(path.read_text() for path in (ROOM.parent).rglob("*.py") if path.parent != ROOM)
    of_topics = {synonym.name for key in TOPIC_KEYS.values() for synonym in key.synonyms}
    for name, key in BROKER_KEYS.items():
        looked_at = name in of_topics or f'"{name}"' in source
        assert not key.effect or looked_at, f"{name} does nothing: say so"
    for name, key in TOPIC_KEYS.items():
        looked_at = f'"{name}"' in source or name.replace(".", "_") in source
        assert not key.effect or looked_at, f"{name} does nothing: say so"
        assert all(BROKER_KEYS[one.name].effect == key.effect for one in key.synonyms), name
