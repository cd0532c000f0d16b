"""Which setting wins: topic over this broker over the cluster's default over the file over Kafka's default.

A text that is no good value of its key, which a foreign controller or a tool at ZooKeeper may have left, is passed
over: who asks for one value is always given one that its key allows. Pure look-ups over an image and the static file;
names and defaults come from ``moldau.model``. Who may change a setting is decided in ``moldau.controller.configs``.
Sources and their numbers: KIP-226, DescribeConfigs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any

from moldau.image.image import Image
from moldau.model.broker_config import BROKER_KEYS
from moldau.model.config_key import ConfigKey, Kind
from moldau.model.dynamic_config import ONLY_DYNAMIC
from moldau.model.group_config import CLIENT_METRICS_KEYS, GROUP_KEYS, broker_default
from moldau.model.named import NamedTuple
from moldau.model.topic_config import TOPIC_KEYS
from moldau.model.topic_defaults import topic_text


class ResourceType(IntEnum):
    """Kinds of things that have settings."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """Where a value comes from."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    DYNAMIC_CLIENT_METRICS = 7
    DYNAMIC_GROUP = 8


class Setting(NamedTuple):
    """One value with its source; ``name`` is the key under which it was found there (a synonym, or the key itself)."""

    name: str
    value: str | None
    source: ConfigSource


WHEN_UNREADABLE = {
    "cleanup.policy": "",
    "retention.bytes": "-1",
    "retention.ms": "-1",
    "unclean.leader.election.enable": "false",
}
"""Topic key -> what counts while its text cannot be read: nobody knows what was meant, so nothing is deleted."""

ID_DIGITS_MAX = 10
CLUSTER = ""
"""Name of the broker resource that holds defaults for all brokers."""

Static = Mapping[str, str]
"""Keys and texts of server.properties."""


def topic_setting(image: Image, topic: str, key: str, static: Static, broker_id: int | None = None) -> Setting:
    """The value of a topic key that counts, as text. ``broker_id``: whose own dynamic settings to look at as well."""
    return _first_good(TOPIC_KEYS[key], topic_settings(image, topic, key, static, broker_id))


def _first_good(key: ConfigKey | None, found: Sequence[Setting]) -> Setting:
    for one in found:
        if key is None or one.value is None or key.is_good(one.value):
            return one
        if key.name in WHEN_UNREADABLE:
            return one._replace(value=WHEN_UNREADABLE[key.name])
    raise AssertionError("the default stands last, and is a good value")


def topic_settings(image: Image, topic: str, key: str, static: Static, broker_id: int | None = None) -> list[Setting]:
    """Every value that a topic key has somewhere, the winning one first, Kafka's default last."""
    found = []
    own = image.config(ResourceType.TOPIC, topic).get(key)
    if own is not None:
        found.append(Setting(key, own, ConfigSource.DYNAMIC_TOPIC))
    known = TOPIC_KEYS[key]
    layers: list[tuple[ConfigSource, Static]] = [
        (ConfigSource.DYNAMIC_DEFAULT_BROKER, image.config(ResourceType.BROKER, CLUSTER)),
        (ConfigSource.STATIC_BROKER, static),
    ]
    if broker_id is not None:
        layers.insert(0, (ConfigSource.DYNAMIC_BROKER, image.config(ResourceType.BROKER, str(broker_id))))
    for source, layer in layers:
        for synonym in known.synonyms:
            text = layer.get(synonym.name)
            if text is not None:
                found.append(Setting(synonym.name, topic_text(known, synonym.factor, text), source))
    found.append(
        Setting(known.synonyms[0].name if known.synonyms else key, known.text(known.default), ConfigSource.DEFAULT)
    )
    return found


def topic_value(image: Image, topic: str, key: str, static: Static) -> Any:
    """One topic key's effective value, parsed."""
    text = topic_setting(image, topic, key, static).value
    return None if text is None else TOPIC_KEYS[key].parse_existing(text)


def broker_setting(image: Image, broker_id: int | None, key: str, static: Static) -> Setting:
    """The value of a broker key that counts: this broker's, the cluster's, the file's, Kafka's default."""
    known = BROKER_KEYS.get(key) or ONLY_DYNAMIC.get(key)
    return _first_good(known, broker_settings(image, broker_id, key, static))


def broker_number(name: str) -> int | None:
    """The id of the broker, or controller, that a resource of that name is; None when the name is no id.

    >>> broker_number("12"), broker_number("9" * 5000), broker_number("")
    (12, None, None)
    """
    return int(name) if name.isascii() and name.isdigit() and len(name) <= ID_DIGITS_MAX else None


def key_of(kind: int, name: str) -> ConfigKey | None:
    """The key of that name for a kind of resource; None when it has none, or this version does not know it."""
    match kind:
        case ResourceType.TOPIC:
            return TOPIC_KEYS.get(name)
        case ResourceType.BROKER:
            return BROKER_KEYS.get(name) or ONLY_DYNAMIC.get(name)
        case ResourceType.GROUP:
            return GROUP_KEYS.get(name)
        case ResourceType.CLIENT_METRICS:
            return CLIENT_METRICS_KEYS.get(name)
        case _:
            return None


def broker_settings(image: Image, broker_id: int | None, key: str, static: Static) -> list[Setting]:
    """Every value that a broker key has somewhere, the winning one first."""
    found = []
    if broker_id is not None:
        own = image.config(ResourceType.BROKER, str(broker_id)).get(key)
        if own is not None:
            found.append(Setting(key, own, ConfigSource.DYNAMIC_BROKER))
    shared = image.config(ResourceType.BROKER, CLUSTER).get(key)
    if shared is not None:
        found.append(Setting(key, shared, ConfigSource.DYNAMIC_DEFAULT_BROKER))
    if key in static:
        found.append(Setting(key, static[key], ConfigSource.STATIC_BROKER))
    known = BROKER_KEYS.get(key) or ONLY_DYNAMIC.get(key)
    found.append(Setting(key, None if known is None else known.text(known.default), ConfigSource.DEFAULT))
    return found


def broker_synonyms(image: Image, broker_id: int, key: str, static: Static) -> list[Setting]:
    """Every value of a broker key and of the older keys that it goes before (log.retention.ms: minutes, hours).

    In Kafka's order: what this broker has of any of them, the cluster, the file, Kafka's defaults. Keys that exist only
    while a broker runs have no default to show.
    """
    names = _synonyms(key)
    found = [setting for name in names for setting in broker_settings(image, broker_id, name, static)]
    order = (
        ConfigSource.DYNAMIC_BROKER,
        ConfigSource.DYNAMIC_DEFAULT_BROKER,
        ConfigSource.STATIC_BROKER,
        ConfigSource.DEFAULT,
    )
    found.sort(key=lambda setting: order.index(setting.source))
    return [
        one
        for one in found
        if one.value is not None and not (one.source is ConfigSource.DEFAULT and key in ONLY_DYNAMIC)
    ]


def _synonyms(key: str) -> tuple[str, ...]:
    for topic_key in TOPIC_KEYS.values():
        names = tuple(one.name for one in topic_key.synonyms)
        if key in names:
            return names[names.index(key) :]
    return (key,)


def group_settings(image: Image, group: str, key: str, static: Static) -> list[Setting]:
    """Every value that a group's key has somewhere: its own, that of the brokers, Kafka's default."""
    own = image.config(ResourceType.GROUP, group).get(key)
    found = [] if own is None else [Setting(key, own, ConfigSource.DYNAMIC_GROUP)]
    default = broker_default(key)
    if default is not None:
        return found + broker_settings(image, None, default, static)
    return [*found, Setting(key, GROUP_KEYS[key].text(GROUP_KEYS[key].default), ConfigSource.DEFAULT)]


def client_metrics_settings(image: Image, name: str, key: str) -> list[Setting]:
    """Every value that a key of a client metrics subscription has: its own, and Kafka's default."""
    known = CLIENT_METRICS_KEYS[key]
    own = image.config(ResourceType.CLIENT_METRICS, name).get(key)
    found = [] if own is None else [Setting(key, own, ConfigSource.DYNAMIC_CLIENT_METRICS)]
    return [*found, Setting(key, known.text(known.default), ConfigSource.DEFAULT)]


def is_sensitive(key: ConfigKey | None) -> bool:
    """Whether a value must not be shown; an unknown key's may be anything, so it is hidden (KIP-226)."""
    return key is None or key.kind is Kind.PASSWORD


def visible_topic_keys() -> Iterable[str]:
    """Topic keys that lists show, by name."""
    return sorted(name for name, key in TOPIC_KEYS.items() if not key.internal)
