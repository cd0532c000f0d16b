"""Brokers with several log directories: the controller knows where each replica lies, and a directory that fails takes
its own leaders down and no others (KIP-858). Controllers register themselves (KIP-919). Real processes, real files.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau import Cluster
from moldau.client.admin import NewTopic, create_topics, describe_log_dirs


def two_directories(cluster: Cluster) -> None:
    """Give every node a second log directory, before it starts."""
    for node in cluster.spec.nodes:
        text = node.properties.read_text()
        first = str(Path(node.folder) / "data")
        node.properties.write_text(text.replace(f"log.dirs={first}\n", f"log.dirs={first},{second(node)}\n"))


def second(node: Any) -> Path:
    return Path(node.folder) / "more"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with_two = Cluster(3, data=tmp_path / "cluster")
    two_directories(with_two)
    with with_two as running:
        yield running


def places(cluster: Cluster, broker: int) -> dict[str, list[tuple[str, int]]]:
    """Directory -> partitions in it, by the broker's own word; an offline one is left out."""
    client = cluster.client()
    found = client.run(describe_log_dirs(client.client, [broker]))[broker]
    return {
        dir.log_dir: [(topic.name, part.partition_index) for topic in dir.topics for part in topic.partitions]
        for dir in found
        if not dir.error_code
    }


def test_a_directory_that_fails_takes_its_own_leaders_down_and_no_others(cluster: Cluster) -> None:
    wish = NewTopic(name="spread", assignment=dict.fromkeys(range(12), (1, 2, 3)))
    made = cluster.client().run(create_topics(cluster.client().client, [wish]))
    assert made["spread"].code == 0
    node = cluster.node(1)
    before = places(cluster, 1)
    lost = {number for _, number in before[str(second(node))]}
    kept = {number for _, number in before[str(Path(node.folder) / "data")]}
    assert len(lost) == len(kept) == 6

    shutil.rmtree(second(node))

    def moved() -> bool:
        partitions = cluster.client().topics(["spread"])["spread"].partitions
        return all(partitions[n].leader not in (1, -1, None) and 1 not in partitions[n].isr for n in lost)

    cluster.wait_until(moved, "the replicas of the lost directory left leads and ISRs")
    assert {number for number in range(12) if cluster.leader("spread", number) == 1} == kept
    partitions = cluster.client().topics(["spread"])["spread"].partitions
    assert all(1 in partitions[n].isr for n in kept)
    assert 1 in cluster.alive()

    cluster.restart(1)  # with an empty directory in its place
    cluster.wait_until_in_sync()
    assert sum(map(len, places(cluster, 1).values())) == 12
