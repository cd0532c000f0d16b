"""Ports of a cluster's nodes: all different, never a client's while their node is down. Processes: found again."""

from __future__ import annotations

import shutil
import socket
import sys
import time
from pathlib import Path

import pytest

from moldau.cluster import nodes as its_nodes
from moldau.cluster.cluster import Cluster
from moldau.cluster.nodes import HOST, ClusterSpec, NodeSpec, free_ports, launch


def test_ports_are_different_and_below_those_that_the_kernel_gives_to_clients() -> None:
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = free_ports(50)
    assert len(set(ports)) == 50
    assert max(ports) < lowest


def test_a_port_that_is_taken_is_not_given_out() -> None:
    (port,) = free_ports(1)
    with socket.create_server((HOST, port)):
        assert port not in free_ports(len(its_nodes.PORTS) // 2)


def test_a_node_whose_starter_was_cut_off_before_it_noted_the_process_is_found(tmp_path: Path) -> None:
    """A second process would not get the first one's folder, and nobody would ever stop the first."""
    nodes = [NodeSpec(id, "broker", str(tmp_path / f"node-{id}"), port=id) for id in (1, 2)]
    ClusterSpec("id", nodes).save(tmp_path)
    process = launch(nodes[0], [sys.executable, "-c", "import sys; sys.stdin = open(0); print(input())"])
    waits = launch(nodes[1], [sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        process.wait(60)  # it has nothing to read
        cluster, until = Cluster(data=tmp_path), time.monotonic() + 60
        while cluster.spec.nodes[1].pid is None and time.monotonic() < until:  # it takes its command line as it begins
            cluster = Cluster(data=tmp_path)
        assert [node.pid for node in cluster.spec.nodes] == [None, waits.pid]
        assert cluster.alive() == [2]
    finally:
        waits.kill()
        waits.wait()


def test_a_folder_that_was_moved_or_copied_says_so_and_touches_no_node_of_the_other_one(tmp_path: Path) -> None:
    """Its nodes' files name the place where they were made: a copy's `up` and `down` started and stopped the others."""
    first, second = tmp_path / "first", tmp_path / "second"
    Cluster(1, data=first)
    shutil.copytree(first, second)
    with pytest.raises(ValueError, match=f"the cluster of {second} was made in {first}"):
        ClusterSpec.load(second)
    link = tmp_path / "link"
    link.symlink_to(first)
    assert ClusterSpec.load(link).nodes[0].folder == str(first / "node-1"), "another name for the same place"
