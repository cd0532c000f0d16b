"""A leader's disk fills up: whatever it acknowledged is there, nothing is half there, and with space again all is well.

Full means: a small tmpfs, where mounting is permitted, and a limit on the size of files, which needs no permission.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer
from foreign import read_confluent

import moldau
from moldau.client.admin import NewTopic, create_topics
from moldau.cluster.kills.replicas import check_folders

TOPIC = "filling"
FULL_AT = 8 << 20
VALUE_BYTES = 100_000
RECORDS = 150


class Tmpfs:
    """A data folder on a file system of its own, too small for what comes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def prepare(self) -> None:
        aside = self.folder.with_name("aside")
        self.folder.rename(aside)
        self.folder.mkdir()
        self._mount(f"size={FULL_AT}")
        shutil.copytree(aside, self.folder, dirs_exist_ok=True)

    def begin(self, pid: int) -> None:
        """It is small already."""

    def give_space(self) -> None:
        self._mount("remount,size=200m")

    def end(self) -> None:
        subprocess.run(["umount", "-l", str(self.folder)], check=False)

    def _mount(self, options: str) -> None:
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "moldau", str(self.folder)], check=True)


class FileLimit:
    """RLIMIT_FSIZE of a running node: what no file may grow beyond."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def prepare(self) -> None:
        """Nothing before there is a process."""

    def begin(self, pid: int) -> None:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (FULL_AT, resource.RLIM_INFINITY))

    def give_space(self) -> None:
        """The limit went with the process."""

    def end(self) -> None:
        """Nothing is left of it."""


def mounting_is_permitted() -> bool:
    """Whether we are root in a place that lets us."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    tried = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False)
    return tried.returncode == 0


WAYS: list[type[Tmpfs] | type[FileLimit]] = [FileLimit, *([Tmpfs] if mounting_is_permitted() else [])]


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def small(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[moldau.Cluster, Tmpfs | FileLimit]]:
    """Three nodes, the first of which has little space."""
    cluster = moldau.Cluster(brokers=3, data=tmp_path)
    disk = request.param(Path(cluster.node(1).folder) / "data")
    disk.prepare()
    try:
        cluster.start()
        disk.begin(cluster.pid(1))
        yield cluster, disk
    finally:
        cluster.close()
        disk.end()


def produce(cluster: moldau.Cluster, numbers: range) -> list[int]:
    """Write numbered records of some size; the numbers that were acknowledged. All of them are answered."""
    acked: list[int] = []
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "message.timeout.ms": 240_000}
    )

    def answered(number: int, error: object, _: object) -> None:
        if error is None:
            acked.append(number)

    for number in numbers:
        value = str(number).encode() + b" " + os.urandom(VALUE_BYTES)
        producer.produce(TOPIC, value, on_delivery=partial(answered, number))
    assert producer.flush(260) == 0
    return acked


def read(cluster: moldau.Cluster, count: int) -> list[int]:
    values = read_confluent(cluster.bootstrap_servers, TOPIC, count)
    return [int(value.partition(b" ")[0]) for _, value in values]


@pytest.mark.timeout(600)
def test_a_full_disk_of_the_leader_loses_nothing_and_heals(small: tuple[moldau.Cluster, Tmpfs | FileLimit]) -> None:
    cluster, disk = small
    setup = NewTopic(name=TOPIC, assignment={0: (1, 2, 3)}, configs={"min.insync.replicas": "2"})
    assert cluster.client().run(create_topics(cluster.client().client, [setup]))[TOPIC].ok
    cluster.wait_until(lambda: cluster.leader(TOPIC, 0) == 1, "the small one leads")

    acked = produce(cluster, range(RECORDS))

    log = Path(cluster.node(1).folder) / "data" / f"{TOPIC}-0" / "00000000000000000000.log"
    assert log.stat().st_size <= FULL_AT < RECORDS * VALUE_BYTES, "the disk was never full"
    cluster.wait_until(lambda: cluster.leader(TOPIC, 0) != 1, "the leader with the full disk leads no more")
    assert acked == list(range(RECORDS))
    assert read(cluster, RECORDS) == acked

    cluster.wait_until(lambda: 1 not in cluster.alive(), "it has stopped, as its metadata log lies there too")
    disk.give_space()
    cluster.restart(1)
    cluster.wait_until_in_sync()
    more = produce(cluster, range(RECORDS, RECORDS + 10))
    assert more == list(range(RECORDS, RECORDS + 10))
    assert read(cluster, RECORDS + 10) == acked + more
    cluster.wait_until_in_sync()
    cluster.stop()
    folders = {id: Path(cluster.node(id).folder) / "data" / f"{TOPIC}-0" for id in (1, 2, 3)}
    assert check_folders(TOPIC, folders, RECORDS + 10) == []
