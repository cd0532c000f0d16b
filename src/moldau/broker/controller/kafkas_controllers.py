"""Whether controllers that this node would follow are Apache Kafka's, in a migration from ZooKeeper.

They say so in their handshake (``Served.migrates_at``); see ``moldau/controller/kafkas_migration.py``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from moldau.client.connection import ConnectionOptions, connect
from moldau.client.lines import Served
from moldau.controller.kafkas_migration import KAFKA_4, of_controllers
from moldau.ports import World

PATIENCE_MS = 2_000
"""For a controller that does not answer: a host that is down must not keep this node from starting."""


def migrates_for_kafka(served: Served) -> bool:
    """Whether the peer is a controller of Kafka 3 that takes part in a migration."""
    return served.migrates_at is not None and served.migrates_at < KAFKA_4


async def refuse_beside(world: World, controllers: Mapping[int, tuple[str, int]], me: int | None = None) -> None:
    """KafkasMigration when one of the controllers says that it migrates a cluster of Kafka's. Who does not answer is
    asked by whatever this node does next. ``me``: the controller that this node is."""
    others = [address for id, address in sorted(controllers.items()) if id != me]
    found = await asyncio.gather(*(_is_kafkas(world, *address) for address in others))
    named = [f"{host}:{port}" for (host, port), is_kafkas in zip(others, found, strict=True) if is_kafkas]
    if named:
        raise of_controllers(named)


async def _is_kafkas(world: World, host: str, port: int) -> bool:
    options = ConnectionOptions(connect_timeout_ms=PATIENCE_MS, request_timeout_ms=PATIENCE_MS)
    try:
        connection = await connect(world, host, port, options)
    except OSError:
        return False
    connection.close()
    return migrates_for_kafka(connection.versions)
