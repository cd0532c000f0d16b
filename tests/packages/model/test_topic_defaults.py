"""A broker key that becomes a setting of topics is refused exactly when the topic key would refuse what it means."""

from __future__ import annotations

import pytest

from moldau.broker.config.node_config import NodeConfig
from moldau.image import Image
from moldau.image.configs import topic_value
from moldau.model.broker_config import BROKER_KEYS
from moldau.model.config_key import ConfigError, ConfigKey, Kind
from moldau.model.topic_config import TOPIC_KEYS
from moldau.model.topic_defaults import BECOMES, check_default

GIVEN = {
    "node.id": "1", "process.roles": "broker", "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "100@localhost:1",
}  # fmt: skip
NUMBERS = ("-5", "-1", "0", "1", "2", "1000", "1048575", "1048576", "2147483647")


def texts(key: ConfigKey) -> tuple[str, ...]:
    """Texts on both sides of every bound that a key of this kind can have."""
    if key.kind in (Kind.INT, Kind.LONG):
        return NUMBERS
    if key.kind is Kind.DOUBLE:
        return ("-0.1", "0", "0.5", "1", "1.1")
    if key.kind is Kind.BOOLEAN:
        return ("true", "yes")
    return (*key.one_of, "nothing of the kind")


@pytest.mark.parametrize("name", BECOMES)
def test_a_node_starts_exactly_with_those_defaults_under_which_topics_can_be_made(name: str) -> None:
    key = BROKER_KEYS[name]
    topic_key, factor = BECOMES[name]
    allowed = 0
    for text in texts(key):
        try:
            value = NodeConfig({**GIVEN, name: text})[name]
        except ConfigError:
            continue
        allowed += 1
        if name == "offsets.topic.segment.bytes":
            assert TOPIC_KEYS[topic_key].parse(text) == value
            continue
        meant = topic_value(Image(), "t", topic_key, {name: text})
        assert meant == (value if factor == 1 or value < 0 else value * factor) or (value < 0 and meant == -1)
    assert allowed, "some value must be good"
    if key.default is not None:
        check_default(name, key.text(key.default) or "")


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("offsets.topic.segment.bytes", "1048575", "a whole number \\(32 bits\\) of at least 1048576"),
        ("log.roll.ms", "0", "at least 1"),
        ("log.roll.jitter.ms", "-1", "at least 0"),
        ("log.flush.interval.ms", "-1", "at least 0"),
        ("log.flush.scheduler.interval.ms", "-1", "at least 0"),
    ],
)
def test_a_default_that_no_topic_could_have_stops_the_start_and_says_what_is_allowed(
    name: str, text: str, says: str
) -> None:
    BROKER_KEYS[name].parse(text)
    with pytest.raises(ConfigError, match=f"Invalid value {text} for configuration {name}.*{says}"):
        NodeConfig({**GIVEN, name: text})


@pytest.mark.parametrize("name", ["log.retention.ms", "log.retention.minutes", "log.retention.hours"])
def test_any_negative_retention_time_is_no_limit_as_for_a_broker_of_kafka(name: str) -> None:
    assert NodeConfig({**GIVEN, name: "-5"})[name] == -5
    assert topic_value(Image(), "t", "retention.ms", {name: "-5"}) == -1
