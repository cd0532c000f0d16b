"""Topics and settings in znodes, as Kafka's tools of the ZooKeeper era read, check and write them.

A change is two steps: the settings, then a note below /config/changes that has the brokers read them. Source:
AdminZkClient and KafkaZkClient of Kafka 2.8.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from moldau.admin.classic.java import CONFIG_ERROR, JavaError
from moldau.admin.classic.kafka_errors import PACKAGE
from moldau.admin.classic.topic_values import refusal
from moldau.admin.classic.zookeeper_session import fitting
from moldau.admin.classic.zookeeper_topics_options import KEYS
from moldau.model.config_key import LONG_MAX, ConfigError, ConfigKey, Kind, table
from moldau.model.topic_config import TOPIC_KEYS
from moldau.ports.zookeeper import NodeExists, NoNode, ZooKeeper
from moldau.zookeeper import paths
from moldau.zookeeper.notes import config_change_json, config_json, parse_config
from moldau.zookeeper.payload import in_table_order
from moldau.zookeeper.znodes import TopicZnode, parse_topic

_GONE = table(
    ConfigKey("message.downconversion.enable", Kind.BOOLEAN, True, "Answer old consumers in their format."),
    ConfigKey("message.timestamp.difference.max.ms", Kind.LONG, LONG_MAX, "Distance from the clock.", low=0),
)
"""Settings of 2.8.2's topics that 4.3.1's have not."""
_VERSION = "message.format.version"
_VERSIONS = tuple(f"0.{minor}" for minor in range(8, 12)) + tuple(
    f"{at}.{minor}" for at in (1, 2) for minor in range(9)
)


async def read_topic(zk: ZooKeeper, name: str) -> TopicZnode | None:
    """A topic's replicas; None when there is no such topic."""
    try:
        return parse_topic(name, (await zk.get(paths.topic(name)))[0])
    except NoNode:
        return None


async def read_settings(zk: ZooKeeper, entity: str) -> dict[str, str]:
    """The settings of an entity, ``topics/orders``, in the order of a hash table; none when it has no znode."""
    try:
        found = parse_config(entity, (await zk.get(paths.config(entity)))[0])
    except NoNode:
        return {}
    return {key: found[key] for key in in_table_order(found)}


async def write_settings(zk: ZooKeeper, entity: str, settings: Mapping[str, str]) -> None:
    """Write an entity's settings, all of them; folders that it needs are made."""
    path, data = paths.config(entity), fitting(config_json(settings))
    try:
        await zk.set(path, data)
        return
    except NoNode:
        pass
    parts = path.split("/")
    for count in range(3, len(parts)):
        try:
            await zk.create("/".join(parts[:count]))
        except NodeExists:
            continue
    await zk.create(path, data)


async def change_settings(zk: ZooKeeper, entity: str, settings: Mapping[str, str]) -> None:
    """Write an entity's settings and have the brokers read them."""
    await write_settings(zk, entity, settings)
    await zk.create(paths.NEW_CONFIG_CHANGE, config_change_json(entity), sequential=True)


def refuse_topic_settings(settings: Mapping[str, str]) -> None:
    """JavaError for a setting that no topic of 2.8.2 has, or a value that it cannot have."""
    for name in in_table_order(settings):
        if name not in KEYS:
            raise JavaError(f"{PACKAGE}InvalidConfigurationException", f"Unknown topic config name: {name}")
    known = {**TOPIC_KEYS, **_GONE}
    refuse_values(settings, [known[name] for name in sorted(settings) if name != _VERSION])
    version = settings.get(_VERSION)
    if version is not None and ".".join(version.split(".")[:2]) not in _VERSIONS:
        why = f"Version `{version}` is not a valid version"
        raise JavaError(CONFIG_ERROR, f"Invalid value {version} for configuration {_VERSION}: {why}")


def refuse_values(settings: Mapping[str, str], keys: Iterable[ConfigKey]) -> None:
    """JavaError for the first of these keys whose value it cannot have."""
    for key in keys:
        if key.name not in settings:
            continue
        try:
            key.parse(settings[key.name])
        except ConfigError:
            raise JavaError(CONFIG_ERROR, refusal(key, settings[key.name].strip())) from None
