"""A client that opens as many connections as the process may have descriptors does not take those of the node."""

from __future__ import annotations

import asyncio
import os
import resource
from pathlib import Path

import pytest

from moldau.broker.network import descriptors
from moldau.model import Code
from moldau.storage.errors import UnusableFile
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


@pytest.mark.parametrize("limit", [16, 100, 256, 1024, 4096, 65536])
def test_clients_files_of_logs_and_the_node_itself_may_take_no_more_than_there_are(
    monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """Clients took three quarters while logs might take half, and no segment could be opened."""
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limit, limit))
    logs = descriptors.open_files_most(1000)
    reserve = min(descriptors.RESERVED, limit // 4)
    for opened in (0, logs // 2, logs):
        clients = sum(not descriptors.is_one_of_the_last(Descriptor(number), logs - opened) for number in range(limit))
        assert clients - opened + logs + reserve <= limit
        assert clients - opened > 0


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


def test_that_files_cannot_be_opened_is_one_line_however_many_partitions_it_concerns(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Produce requests brought 2,930 lines in 15 seconds."""

    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            replicas = cluster.brokers[0].replicas
            for number in range(100):
                error = UnusableFile(f"flights-{number} cannot be opened")
                error.passing = number != 50
                replicas.failed(error)

    run(work)
    lines = [record.getMessage() for record in caplog.records if "cannot be opened" in record.getMessage()]
    assert lines == ["flights-0 cannot be opened", "flights-50 cannot be opened"], "one, and what is not of that kind"
