"""The properties of a node in each mode of a migration. Pure: properties in, properties out.

A broker on ZooKeeper keeps what it was given; one that takes part knows the quorum as well; one in KRaft mode
knows ZooKeeper no more. The same edits that an operator makes by hand (docs/migration.md).
"""

from __future__ import annotations

from collections.abc import Mapping

ENABLE = "zookeeper.metadata.migration.enable"
CONTROLLER_LISTENER = "CONTROLLER"
OF_ZOOKEEPER = ("zookeeper.connect", "zookeeper.session.timeout.ms", "zookeeper.connection.timeout.ms", ENABLE)
OF_ONE_BROKER = ("broker.id", "node.id", "listeners", "advertised.listeners", "log.dirs", "process.roles")
SESSION_MS = "10000"


def taking_part(given: Mapping[str, str], voters: str) -> dict[str, str]:
    """A broker on ZooKeeper that will follow the quorum."""
    return {**given, **_quorum(voters), ENABLE: "true"}


def on_quorum(given: Mapping[str, str], voters: str) -> dict[str, str]:
    """The properties of a broker of ZooKeeper mode in KRaft mode."""
    kept = {key: text for key, text in given.items() if key not in (*OF_ZOOKEEPER, "broker.id")}
    return {
        "process.roles": "broker",
        "node.id": given.get("broker.id", given.get("node.id", "")),
        **kept,
        **_quorum(voters),
    }


def controller(given: Mapping[str, str], own: Mapping[str, str], voters: str, zookeeper: str) -> dict[str, str]:
    """A controller of its own, given a broker's properties: what holds for the cluster holds for it too.

    ``own``: what is this node's alone. ``zookeeper``: where to migrate from; empty once that is over.
    """
    kept = {key: text for key, text in given.items() if key not in (*OF_ZOOKEEPER, *OF_ONE_BROKER)}
    there = {
        "zookeeper.connect": zookeeper,
        "zookeeper.session.timeout.ms": SESSION_MS,
        "zookeeper.connection.timeout.ms": "30000",
        ENABLE: "true",
    }
    return {"process.roles": "controller", **kept, **own, **_quorum(voters), **(there if zookeeper else {})}


def text_of(settings: Mapping[str, str]) -> str:
    return "".join(f"{key}={text}\n" for key, text in settings.items())


def _quorum(voters: str) -> dict[str, str]:
    return {"controller.quorum.voters": voters, "controller.listener.names": CONTROLLER_LISTENER}
