"""A node with listeners by name, as files for Docker and Kubernetes have them: each sends its clients to itself."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Producer
from foreign import read_confluent
from kafka_peer import ask_cluster, free_port
from one_node import OneNode


def test_two_listeners_for_clients_serve_each_under_its_own_address(tmp_path: Path) -> None:
    inside, outside, control = free_port(), free_port(), free_port()
    node = OneNode(
        tmp_path,
        {
            "listeners": ",".join(
                f"{name}://127.0.0.1:{port}"
                for name, port in (("INTERNAL", inside), ("EXTERNAL", outside), ("CONTROLLER", control))
            ),
            "advertised.listeners": f"INTERNAL://127.0.0.1:{inside},EXTERNAL://localhost:{outside}",
            "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "INTERNAL",
            "controller.quorum.voters": f"1@127.0.0.1:{control}",
            "num.io.threads": 8,
            "some.plugin.url": "here",
        },
    )
    node.port = inside
    try:
        node.format().start()
        for port, host in ((inside, "127.0.0.1"), (outside, "localhost")):
            assert ask_cluster(port).brokers == {1: (host, port)}
        producer = Producer({"bootstrap.servers": f"127.0.0.1:{inside}"})
        producer.produce("both", b"through one")
        assert producer.flush(60) == 0
        assert read_confluent(f"127.0.0.1:{outside}", "both", 1)[0][1] == b"through one", "and read through the other"
        warned = [line for line in node.text.splitlines() if "WARN" in line]
        assert sum("num.io.threads" in line for line in warned) == 1, node.text
        assert sum("some.plugin.url" in line for line in warned) == 1, node.text
        assert node.stop() == 0
    finally:
        node.close()
