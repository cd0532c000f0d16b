"""A cluster is up when each of its brokers, asked itself, knows all of them and a controller."""

from __future__ import annotations

from collections.abc import Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.cluster.nodes import ClusterSpec
from moldau.cluster.standing import foreign_zookeeper, is_told


class Asked:
    """A client to whom brokers answer, by id: (controller, brokers that it shows)."""

    client = None

    def __init__(self, answers: dict[int, tuple[int, list[int]]]) -> None:
        self._answers = iter(answers.values())

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        work.close()
        controller, brokers = next(self._answers)
        return SimpleNamespace(controller_id=controller, brokers=[SimpleNamespace(broker_id=id) for id in brokers])


@pytest.mark.parametrize(
    ("answers", "up"),
    [
        ({1: (2, [1, 2]), 2: (2, [1, 2])}, True),
        ({1: (2, [1, 2]), 2: (-1, [1, 2])}, False),
        ({1: (2, [1, 2]), 2: (2, [1])}, False),
        ({1: (2, [1, 2]), 2: (-1, [])}, False),
    ],
)
def test_a_broker_that_has_been_told_nothing_keeps_its_cluster_from_being_up(
    answers: dict[int, tuple[int, list[int]]], up: bool
) -> None:
    asked: Any = Asked(answers)
    assert is_told(asked, list(answers)) is up


def test_a_cluster_that_never_ran_has_no_zookeeper_to_doubt(tmp_path: Path) -> None:
    assert foreign_zookeeper(ClusterSpec("", zookeeper="127.0.0.1:1", embedded=True)) is None
