"""Keys of server.properties that this version cannot serve: which must stop the start, and which are only named.

Decides from key and text alone. A start is refused where leaving the setting out would be unsafe: whoever sets an
authorizer or a policy relies on what it forbids, whoever has tiered storage has records that nobody would find. What is
merely not done here (thread counts, metric reporters, details of TLS and SASL, which no listener speaks) is accepted
and named. Asked by ``moldau.broker.config.node_config``; the list of what has no effect is ``broker_config_inert.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from moldau.model.broker_config import BROKER_KEYS
from moldau.model.config_key import ConfigError

_NO_PLUGIN = "Java plug-ins are not run, and what this one forbids would be allowed"
_REFUSED: dict[str, str] = {
    "authorizer.class.name": "no authorizer is run, so that everybody who can connect would be allowed everything",
    "create.topic.policy.class.name": _NO_PLUGIN,
    "alter.config.policy.class.name": _NO_PLUGIN,
    "client.quota.callback.class": "Java plug-ins are not run, and what this one limits would have no limit",
    "remote.log.storage.system.enable": "tiered storage is not served, and records that lie there would be missing",
    "zookeeper.set.acl": "ACLs of znodes are not written, so that everybody who reaches ZooKeeper could change them",
    "zookeeper.ssl.client.enable": "ZooKeeper is spoken to without TLS only",
}
"""Key -> why a file that turns it on is refused."""


_RELEASE = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})(?![0-9])")


def check_served(given: Mapping[str, str]) -> None:
    """ConfigError for a setting that would be unsafe to leave out, with the reason and what to do."""
    for name, why in _REFUSED.items():
        text = given.get(name, "").strip()
        if text and text.lower() != "false":
            raise ConfigError(f"Invalid value {text} for configuration {name}: {why}; remove the setting to start")
    _check_protocol_version(given)
    providers = [one.strip() for one in given.get("config.providers", "").split(",") if one.strip()]
    for name, text in given.items():
        for provider in providers:
            if f"${{{provider}:" in text:
                raise ConfigError(
                    f"Invalid value {text} for configuration {name}: config.providers are not run, and the text would"
                    " be taken as it stands; write the value itself"
                )


def _check_protocol_version(given: Mapping[str, str]) -> None:
    """ConfigError for a cluster on ZooKeeper whose topics have no ids (KIP-516): a replica of one would be kept under
    an id of this broker's own, by which no leader knows it, and put aside when the topic is given its id."""
    name = "inter.broker.protocol.version"
    text = given.get(name, "").strip()
    match = _RELEASE.match(text)
    on_zookeeper = given.get("zookeeper.connect", "").strip() and not given.get("process.roles", "").strip()
    if match and on_zookeeper and ((int(match[1]), int(match[2])) < (2, 8) or text == "2.8-IV0"):
        raise ConfigError(
            f"Invalid value {text} for configuration {name}: below 2.8-IV1 topics have no ids, which this broker needs;"
            " raise it on all brokers of the cluster first"
        )


def without_effect(given: Iterable[str]) -> list[str]:
    """The given names that Kafka knows and that change nothing here, in order."""
    return sorted(name for name in given if _is_inert(name))


def unknown(given: Iterable[str]) -> list[str]:
    """The given names that no version of Kafka's broker reads as far as we know, in order."""
    return sorted(name for name in given if name not in BROKER_KEYS and not _is_inert(name))


def _is_inert(name: str) -> bool:
    key = BROKER_KEYS.get(name)
    return name.startswith("listener.name.") if key is None else not key.effect
