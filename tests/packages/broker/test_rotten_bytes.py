"""A leader whose bytes rotted gives its place to a replica that has them whole, once a reader cannot use it."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.broker.metrics.damage_figures import damage_figures
from moldau.model import Code
from moldau.storage.checked_reads import REPEATED_MAX
from tests.packages.broker.data_cluster import TOPIC_ID, DataCluster, batch, records_of, run, until


def rot(path: Path) -> None:
    """Make the last byte of a file another."""
    path.write_bytes(path.read_bytes()[:-1] + b"!")


def test_a_batch_that_rotted_is_asked_for_again_and_the_partition_goes_offline_here(tmp_path: Path) -> None:
    async def scene() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1, partitions=2)
            for number in (0, 1):
                assert (await cluster.produce(0, batch(), number=number)).error_code == Code.NONE
            sound = records_of(await cluster.fetch(0, 0))
            rot(Path(cluster.brokers[0].replica().log.active.path()))

            codes = [(await cluster.fetch(0, 0)).error_code for _ in range(REPEATED_MAX + 1)]

            assert Code.CORRUPT_MESSAGE in codes
            assert cluster.brokers[0].replicas.is_offline((TOPIC_ID, 0))
            assert (await cluster.fetch(0, 0, 1)).records, "the others stay"
            cluster.elect(1, (1,))
            found = await until(lambda: cluster.brokers[1].replica().machine.role.name == "LEADER")
            assert found
            assert records_of(await cluster.fetch(1, 0)) == sound

    run(scene)


def test_damage_that_every_fetch_meets_again_is_named_once_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each waiting consumer wrote two lines a second, and no figure told of it."""

    async def scene() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0)
            assert (await cluster.produce(0, batch())).error_code == Code.NONE
            await cluster.fetch(0, 0)
            broker, told = cluster.brokers[0], list[str]()
            broker.replicas.logs.damaged.on_found = told.append
            rot(Path(broker.replica().log.active.path()))

            codes = [(await cluster.fetch(0, 0)).error_code for _ in range(2 * REPEATED_MAX)]

            assert codes.count(Code.CORRUPT_MESSAGE) > 1
            assert not [one for one in caplog.messages if "is corrupt at byte" in one]
            assert len(told) == 1
            assert "is corrupt at byte" in told[0]
            skipped = next(one for one in damage_figures(broker.replicas.logs) if "skipped" in one.name)
            assert [value for _, _, value in skipped.samples] == [1]

    run(scene)
