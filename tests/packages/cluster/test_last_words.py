"""What is told of a node that ended: what it said at its start, or in its log."""

from __future__ import annotations

import sys
from pathlib import Path

from moldau.cluster.nodes import NodeSpec, last_words, launch


def test_the_last_words_of_a_node_are_those_of_its_start_or_else_of_its_log(tmp_path: Path) -> None:
    node = NodeSpec(1, "broker", str(tmp_path))
    assert last_words(node) == ""
    node.logs.mkdir()
    (node.logs / "out.log").write_text("")
    (node.logs / "server.log").write_text("registered\nFATAL a task failed\n")
    assert last_words(node, 1) == "FATAL a task failed"
    (node.logs / "out.log").write_text("no such file: server.properties\n")
    assert last_words(node) == "no such file: server.properties"


def test_what_an_earlier_start_said_is_not_told_of_this_one(tmp_path: Path) -> None:
    """A start that failed was told with the reasons of the failures before it."""
    node = NodeSpec(1, "broker", str(tmp_path))
    for reason in ("first", "second"):
        words = [sys.executable, "-c", f"print('{reason} reason')"]
        launch(node, words).wait(60)
    assert last_words(node) == "second reason"
    launch(node, [sys.executable, "-c", ""]).wait(60)
    started = "[2026-11-24 05:05:13,184] INFO Moldau 0.1.0 starts: node 1 (broker), process 7 (moldau.node)"
    (node.logs / "server.log").write_text(f"{started}\nFATAL of before\n{started}\nFATAL of now\n")
    assert last_words(node) == f"{started}\nFATAL of now"
