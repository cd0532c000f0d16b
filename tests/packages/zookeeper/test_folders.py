"""The znodes that everything hangs on, as Apache Kafka's controller expects to find them."""

from __future__ import annotations

import asyncio
from typing import Any

from moldau.broker.zookeeper.folders import make_folders
from moldau.zookeeper import paths


class Empty:
    """A ZooKeeper without a znode, which keeps what is made."""

    def __init__(self) -> None:
        self.made: dict[str, bytes | None] = {}

    async def get_many(self, wanted: Any) -> list[None]:
        return [None for _ in wanted]

    async def create(self, path: str, data: bytes | None = b"", **_: bool) -> str:
        self.made[path] = data
        return path


def test_they_are_made_without_data_and_not_with_empty_data() -> None:
    """Kafka 3.9's controller reads b"" in /latest_producer_id_block as JSON, and could give out no producer id."""
    zk: Any = Empty()
    asyncio.run(make_folders(zk))
    assert zk.made.keys() == set(paths.PERSISTENT)
    assert set(zk.made.values()) == {None}
