"""What a node's log says first: which program, process and node this is, its addresses, folders and settings.

Pure text, but for one look into the log directories: whether the node's last stop was a clean one. ``node.py`` logs it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping

from moldau import __version__
from moldau.broker.config.listeners import EndPoint
from moldau.broker.config.node_config import NodeConfig
from moldau.cluster.last_stop import last_stop
from moldau.model.broker_config import BROKER_KEYS
from moldau.model.config_key import Kind

SHOWN_ELSEWHERE = ("node.id", "broker.id", "process.roles", "listeners", "advertised.listeners", "log.dirs", "log.dir")


def banner(config: NodeConfig) -> list[str]:
    """The lines that a start begins with."""
    roles = ",".join(sorted(config.roles))
    system = os.uname()  # what the module platform would say, without its 2 ms of a start
    plane = " in ZooKeeper mode" if config.on_zookeeper else ""
    return [
        f"Moldau {__version__} starts: node {config.node_id} ({roles}){plane}, process {os.getpid()},"
        f" Python {sys.version.split()[0]}, {system.sysname} {system.release}",
        f"listeners: {_addresses(config.listeners)}; advertised: {_addresses(config.advertised)}",
        f"log directories: {', '.join(config.log_dirs)}"
        + ("" if config.metadata_dir in config.log_dirs else f"; metadata: {config.metadata_dir}"),
        f"settings other than their defaults: {', '.join(settings(config)) or 'none'}",
        *(f"{path}: {previous_stop(path)}" for path in (config.log_dirs if config.is_broker else ())),
    ]


def settings(config: NodeConfig) -> Iterator[str]:
    """``key=value`` of every setting that is another than its default; secrets are hidden."""
    for name, text in sorted(config.given.items()):
        key = BROKER_KEYS.get(name)
        if key is None or name in SHOWN_ELSEWHERE or config[name] == key.default:
            continue
        yield f"{name}={'[hidden]' if key.kind is Kind.PASSWORD else text.strip()}"


def ignored(environment: Mapping[str, str]) -> str:
    """The line about variables that images of Kafka make settings of, as KAFKA_NODE_ID of node.id; empty without any.
    Those of Kafka's scripts, as KAFKA_HEAP_OPTS, are no settings."""
    found = {
        name: key
        for name in sorted(environment)
        if name.startswith("KAFKA_")
        # the images' own way, and _CFG in those of one maker
        and (key := name[6:].removeprefix("CFG_").lower().replace("__", "\0").replace("_", ".").replace("\0", "_"))
        in BROKER_KEYS
    }
    if not found:
        return ""
    names = ", ".join(f"{name} ({key})" for name, key in found.items())
    return f"variables of the environment have no effect; write the keys into server.properties: {names}"


def previous_stop(path: str) -> str:
    """How the broker that last used a log directory ended."""
    try:
        return last_stop(path).value
    except OSError as error:
        return f"it cannot be read ({error.strerror or error})"


def _addresses(listeners: Iterable[EndPoint]) -> str:
    return ", ".join(f"{one.name}://{one.host}:{one.port}" for one in listeners)
