"""What a node's log says of its settings at the start: those that are unknown, without effect, of nobody's reach, or
that Apache Kafka takes as well and that do nobody good."""

from __future__ import annotations

import logging

from moldau.broker.config.listeners import LOOPBACK
from moldau.broker.config.node_config import NodeConfig

log = logging.getLogger(__name__)

HEARTBEAT, SESSION, ZOOKEEPER_SESSION = (
    "broker.heartbeat.interval.ms",
    "broker.session.timeout.ms",
    "zookeeper.session.timeout.ms",
)
HEARTBEAT_MS, ZOOKEEPER_SESSION_MS = 10, 1_000
"""Less keeps a processor busy with heartbeats, or with connections to ZooKeeper that have no time to be made."""


def warn_of_settings(config: NodeConfig) -> None:
    """Name what the file says and nothing here does, once."""
    if config.unknown:
        log.warning("these settings are unknown and ignored: %s", ", ".join(config.unknown))
    if config.without_effect:
        log.warning("these settings have no effect here: %s", ", ".join(config.without_effect))
    for one, told in config.unreachable():
        log.warning(
            "listener %s names no host, so it binds %s only, and others are sent to %s:%d, where they reach this"
            " node only if something there forwards to it; write %s://0.0.0.0:%d to bind all interfaces",
            *(one.name, LOOPBACK, told.host, told.port, one.name, one.port),
        )
    _warn_of_times(config)


def _warn_of_times(config: NodeConfig) -> None:
    """Name times that are too short for each other, or for any machine."""
    if config.on_zookeeper:
        if config[ZOOKEEPER_SESSION] < ZOOKEEPER_SESSION_MS:
            log.warning(
                "%s=%d leaves a connection no time to be made, and its attempts keep a processor busy; at least %d is"
                " expected",
                *(ZOOKEEPER_SESSION, config[ZOOKEEPER_SESSION], ZOOKEEPER_SESSION_MS),
            )
        return
    interval_ms, session_ms = config[HEARTBEAT], config[SESSION]
    if 2 * interval_ms > session_ms:
        log.warning(
            "%s=%d is more than half of %s=%d: a broker whose heartbeat is a little late is fenced; both should be the"
            " same on all nodes",
            *(HEARTBEAT, interval_ms, SESSION, session_ms),
        )
    if interval_ms < HEARTBEAT_MS:
        log.warning(
            "%s=%d keeps a processor busy with heartbeats; at least %d is expected",
            *(HEARTBEAT, interval_ms, HEARTBEAT_MS),
        )
