"""Variables that Docker images of Kafka make settings of: a node names them once, and goes by its file."""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka_peer import ask_cluster
from one_node import OneNode


def test_a_start_names_variables_that_would_be_settings_in_images_of_kafka(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_NODE_ID", "7")
    monkeypatch.setenv("KAFKA_HEAP_OPTS", "-Xmx1g")
    node = OneNode(tmp_path)
    try:
        node.format().start()
        (line,) = (line for line in node.text.splitlines() if "KAFKA_" in line)
        assert line.partition("WARN ")[2].startswith("variables of the environment have no effect")
        assert "KAFKA_NODE_ID (node.id)" in line
        assert "HEAP" not in line
        assert 1 in ask_cluster(node.port).brokers, "the file's id is the node's"
        assert node.stop() == 0
    finally:
        node.close()
