"""What is said of a node that does not answer: why, and what lets it go on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from moldau.admin import node_states
from moldau.admin.node_states import NodeState
from moldau.cluster.nodes import NodeSpec


def test_a_signal_that_a_busy_machine_obeys_late_is_named_when_the_node_has_not_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was looked for before the node was asked, and not yet obeyed then: who looked was not told what helps."""
    looks = [False, True]
    monkeypatch.setattr(node_states, "is_paused", lambda _: looks.pop(0))
    monkeypatch.setattr(node_states, "why_not_kafka", lambda *_: "it has said nothing for 4 s")
    node = NodeSpec(2, "broker", str(tmp_path), port=1, pid=os.getpid())
    state, why = node_states._state(node)
    assert state is NodeState.NOT_ANSWERING
    assert why == f"node 2 is stopped by a signal: `kill -CONT {os.getpid()}` lets it go on"
