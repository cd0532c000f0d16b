"""What is told of a node that ended: what it said at its start, or in its log."""

from __future__ import annotations

from pathlib import Path

from moldau.cluster.nodes import NodeSpec, last_words


def test_the_last_words_of_a_node_are_those_of_its_start_or_else_of_its_log(tmp_path: Path) -> None:
    node = NodeSpec(1, "broker", str(tmp_path))
    assert last_words(node) == ""
    node.logs.mkdir()
    (node.logs / "out.log").write_text("")
    (node.logs / "server.log").write_text("registered\nFATAL a task failed\n")
    assert last_words(node, 1) == "FATAL a task failed"
    (node.logs / "out.log").write_text("no such file: server.properties\n")
    assert last_words(node) == "no such file: server.properties"
