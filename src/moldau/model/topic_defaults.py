"""Broker keys whose values become settings of topics, and what follows: they have to be good values of those too.

Decides how a broker key's text reads as the topic key's, and whether it may stand there. Without this, a node would
start with a default under which no topic can be made (offsets.topic.segment.bytes below a segment's least size), or no
log be opened (log.roll.ms=0). Which of several synonyms wins is decided in ``moldau.image.configs``. Read next:
``topic_config.py`` (the synonyms), ``moldau.broker.config.node_config`` (asks at the start),
``moldau.controller.configs`` (later).
"""

from __future__ import annotations

from moldau.model.config_key import ConfigError, ConfigKey, Kind
from moldau.model.topic_config import TOPIC_KEYS

OF_INTERNAL_TOPICS = {"offsets.topic.segment.bytes": ("segment.bytes", 1)}
"""Broker key -> topic key and factor: settings that an internal topic is made with."""

BECOMES: dict[str, tuple[str, int]] = {
    **{one.name: (key.name, one.factor) for key in TOPIC_KEYS.values() for one in key.synonyms},
    **OF_INTERNAL_TOPICS,
}
"""Broker key -> the topic key that it becomes, and by what it is multiplied."""


_NUMBER = ConfigKey("", Kind.LONG, 0, "")


def topic_text(topic_key: ConfigKey, factor: int, text: str) -> str:
    """A broker key's text in the topic key's unit.

    Any negative retention time is "no limit", as a broker of Kafka reads it; minus one hour is never -3,600,000. A text
    that is no number stays as it is.

    >>> topic_text(TOPIC_KEYS["retention.ms"], 3_600_000, "2"), topic_text(TOPIC_KEYS["retention.ms"], 60_000, "-5")
    ('7200000', '-1')
    """
    unlimited = topic_key.name == "retention.ms"
    if factor == 1 and not unlimited:
        return text
    try:
        number = _NUMBER.parse(text)
    except ConfigError:
        return text  # no good value of either key, and the topic key will say so
    if number < 0:
        return "-1" if unlimited else str(number)
    return str(number * factor)


def check_default(name: str, text: str, *, existing: bool = False) -> None:
    """ConfigError when broker key ``name`` becomes a topic setting that ``text`` is no good value of.

    ``text`` is a good value of the broker key itself; any other key is fine. ``existing``: it has been set already, so
    that the bounds of older releases count.
    """
    topic_name, factor = BECOMES.get(name, ("", 1))
    if not topic_name:
        return
    key = TOPIC_KEYS[topic_name]
    try:
        (key.parse_existing if existing else key.parse)(topic_text(key, factor, text))
    except ConfigError:
        unit = f", times {factor}," if factor != 1 else ""
        raise ConfigError(
            f"Invalid value {text} for configuration {name}:{unit} it becomes the setting {topic_name} of topics,"
            f" for which {key.allowed()} is expected"
        ) from None
