"""Disks that become full under a pipeline: each is named, nothing is lost or doubled, the books say what is there.

What is full may be the disk of a table that grows, of an Iceberg table, of the dead letters, or of the pipeline's
folder with its checkpoint and books. The policy is one for all: the run ends before the batch is in the books, and the
next one finishes it.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession
from test_pipeline import Fresh, Orders
from test_pipeline_taken_back import said

from moldau.pipeline.running import Ended
from moldau.pipeline.said import words

pytestmark = pytest.mark.timeout(900)

FULL = "No space left on device"
PAGE = 4096
PLACES = {"orders": "table", "second": "Iceberg table", "dead": "dead letters", "state": "folder"}


class Disk:
    """A disk of its own, of a few megabytes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._filler = folder, folder / "filler"

    def mount(self, size: str, *how: str) -> bool:
        command = ["mount", "-t", "tmpfs", "-o", ",".join([*how, f"size={size}"]), "moldau", str(self.folder)]
        return not subprocess.run(command, capture_output=True, check=False).returncode

    def leave(self, pages: int) -> None:
        """Fill it, but for so many pages."""
        there = os.statvfs(self.folder)
        with self._filler.open("ab") as file:
            file.write(bytes(max(0, there.f_bavail - pages) * there.f_bsize))

    def clear(self) -> None:
        self._filler.unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    found = Disk(folder)
    if os.geteuid() or not found.mount("2m"):
        pytest.skip("mounting is not permitted here")
    yield found
    subprocess.run(["umount", "-l", str(folder)], check=False)


@pytest.fixture
def orders(spark: SparkSession, bootstrap_servers: str, tmp_path: Path, fresh: Fresh) -> Orders:
    found = Orders(spark, bootstrap_servers, tmp_path, fresh("orders"))
    found.declare(
        more_sinks=f"""\
  - table: second
    format: iceberg
    options: {{catalog: local, type: sql, uri: "sqlite:///{tmp_path}/catalog.db", identifier: default.second}}
"""
    )
    return found


def second(orders: Orders) -> list[int]:
    """The ids in the Iceberg table."""
    catalog = load_catalog("local", type="sql", uri=f"sqlite:///{orders.folder}/catalog.db")
    return sorted(catalog.load_table("default.second").scan().to_arrow()["id"].to_pylist())


def dead_at(orders: Orders) -> int:
    status = json.loads(said(orders, "status", "--verify", "-o", "json"))
    assert status["balanced"], status
    assert not status["problems"], status
    return int(status["dead_waiting"])


@pytest.mark.parametrize("place", PLACES, ids=PLACES.values())
def test_however_little_space_is_left_nothing_is_lost_or_doubled(orders: Orders, disk: Disk, place: str) -> None:
    (disk.folder / place).mkdir()
    (orders.folder / place).symlink_to(disk.folder / place)
    orders.orders(range(10))
    assert orders.run() is Ended.DONE
    ended = 0
    for turn, pages in enumerate((0, 1, 2, 3, 5, 8, 13), start=1):
        orders.orders(range(10 * turn, 10 * turn + 9))
        orders.write(b"garbage")
        disk.leave(pages)
        try:
            assert orders.run() is Ended.DONE
        except Exception as error:
            assert FULL in words(error), words(error)  # noqa: PT017 - it may be enough space, too
            ended += 1
            said(orders, "status", "--verify", "-o", "json")
        disk.clear()
    assert ended > 0, "the disk was full"
    assert orders.run() is Ended.DONE
    expected = [*range(10), *(10 * turn + one for turn in range(1, 8) for one in range(9))]
    assert orders.ids() == second(orders) == orders.clean() == expected
    assert dead_at(orders) == 7


def test_a_table_that_grows_until_its_disk_is_full_is_gone_on_with_on_a_larger_one(orders: Orders, disk: Disk) -> None:
    (disk.folder / "orders").mkdir()
    (orders.folder / "orders").symlink_to(disk.folder / "orders")
    text = orders.file.read_text()
    pad = "concat_ws('', transform(sequence(1, 200), one -> sha2(concat(id, one), 512))) AS pad"
    orders.file.write_text(text.replace("SELECT id,", f"SELECT {pad}, id,"))
    orders.orders(range(400))
    with pytest.raises(Exception, match=FULL) as found:
        orders.run()
    assert words(found.value).startswith(f"sink {orders.folder}/orders: "), words(found.value)
    status = json.loads(said(orders, "status", "-o", "json"))
    assert status["state"] == "failed"
    assert FULL in status["message"]
    assert 0 < status["read"] < 400
    assert dead_at(orders) == 0
    assert disk.mount("64m", "remount")
    assert orders.run() is Ended.DONE
    assert orders.ids() == second(orders) == orders.clean() == list(range(400))
    assert dead_at(orders) == 0
