"""Ports of a cluster's nodes: all different, and no client is ever given one while its node is down."""

from __future__ import annotations

import socket
from pathlib import Path

from moldau.cluster.nodes import HOST, free_ports


def test_ports_are_different_and_below_those_that_the_kernel_gives_to_clients() -> None:
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = free_ports(50)
    assert len(set(ports)) == 50
    assert max(ports) < lowest


def test_a_port_that_is_taken_is_not_given_out() -> None:
    (port,) = free_ports(1)
    with socket.create_server((HOST, port)):
        assert port not in free_ports(3000)
