"""What a node's log says of its settings at the start: those that are unknown, without effect, or of nobody's reach."""

from __future__ import annotations

import logging

from moldau.broker.config.listeners import LOOPBACK
from moldau.broker.config.node_config import NodeConfig

log = logging.getLogger(__name__)


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
