"""The configuration tables: defaults are allowed by their own bounds, topic keys agree with their broker synonyms."""

from __future__ import annotations

import pytest

from moldau.terms.broker_config import BROKER_KEYS
from moldau.terms.config_key import ConfigError, ConfigKey, Kind
from moldau.terms.topic_config import TOPIC_KEYS

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
