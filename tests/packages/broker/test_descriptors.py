"""A client that opens as many connections as the process may have descriptors does not take those of the node."""

from __future__ import annotations

import asyncio
import os
import resource
from pathlib import Path

import pytest

from moldau.broker.network import descriptors
from moldau.model import Code
from tests.packages.broker.data_cluster import DataCluster, batch, run, until


class Descriptor:
    def __init__(self, number: int) -> None:
        self._number = number

    def get_extra_info(self, name: str) -> Descriptor:
        assert name == "socket"
        return self

    def fileno(self) -> int:
        return self._number


@pytest.mark.parametrize(
    ("limit", "number", "stays"),
    [(1024, 823, True), (1024, 824, False), (100, 74, True), (100, 75, False), (resource.RLIM_INFINITY, 1 << 20, True)],
)
def test_the_last_descriptors_are_not_for_clients(
    monkeypatch: pytest.MonkeyPatch, limit: int, number: int, stays: bool
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limit, limit))
    assert (not descriptors.is_one_of_the_last(Descriptor(number))) is stays
    assert descriptors.open_files_most(1000) <= max(limit // 2, 1000 * (limit == resource.RLIM_INFINITY))


def lowest_free() -> int:
    found = os.open("/dev/null", os.O_RDONLY)
    os.close(found)
    return found


def test_those_who_are_connected_are_served_while_a_flood_is_turned_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0)
            assert (await cluster.produce(0, batch())).error_code == Code.NONE
            broker = cluster.brokers[0]
            most = lowest_free() + 20
            monkeypatch.setattr(resource, "getrlimit", lambda which: (most + 5, most + 5))
            monkeypatch.setattr(descriptors, "RESERVED", 5)
            flood = [await asyncio.open_connection("127.0.0.1", broker.port) for _ in range(40)]
            await until(lambda: any(reader.at_eof() for reader, _ in flood), "the last are turned away")
            assert len(broker.socket_listener.connections) < 40
            assert (await cluster.produce(0, batch())).error_code == Code.NONE
            for _, writer in flood:
                writer.close()

    run(work)
    assert "ulimit -n" in caplog.text
