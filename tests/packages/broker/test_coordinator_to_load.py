"""A broker that leads a partition of the offsets topic while its coordinator cannot be loaded coordinates later.

Modules are read from files: where no descriptor is free, or the disk answers with an error, that fails. The error went
through whatever made the broker lead, which was the delivery of committed metadata: the node ended.
"""

from __future__ import annotations

from collections.abc import Callable
from errno import EMFILE
from pathlib import Path

import pytest

from moldau.broker import leading_groups
from moldau.broker.data import DataSide
from moldau.broker.groups.coordinator import Coordinator
from moldau.model import Code
from moldau.wire.frames import request_frame
from moldau.wire.messages.k10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.packages.broker.data_cluster import run, until
from tests.packages.broker.whole_node import Wire, feed, whole_node


class Refusals:
    """Lets the coordinator be loaded once ``left`` attempts have failed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, left: int, error: Exception) -> None:
        self.left = left
        loaded: Callable[[DataSide], Coordinator] = vars(DataSide)["coordinator"].fget

        def load(data: DataSide) -> Coordinator:
            if self.left:
                self.left -= 1
                raise error
            return loaded(data)

        monkeypatch.setattr(DataSide, "coordinator", property(load))


def code_of(wire: Wire) -> int | None:
    """The code of the newest answer."""
    out = bytes(wire.out)
    wire.out.clear()
    return FindCoordinatorResponse.decode(out[8:], 1).error_code if out else None


@pytest.mark.parametrize(
    "error",
    [OSError(EMFILE, "Too many open files"), ImportError("no module"), MemoryError()],
    ids=lambda e: type(e).__name__,
)
def test_groups_are_coordinated_once_the_coordinator_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(leading_groups, "AGAIN_MS", 1)

    async def work() -> None:
        async with whole_node(tmp_path) as one:
            refusals = Refusals(monkeypatch, 5, error)
            connection, wire = one.connection("broker")
            asked = b"".join(map(bytes, request_frame(FindCoordinatorRequest(key="g"), 1, 1, "test")))
            found: list[int | None] = []
            while Code.NONE not in found:
                feed(connection, asked)
                await until(lambda: bool(wire.out), "an answer")
                found.append(code_of(wire))
            assert not one.ended
            data = one.node.data
            assert data is not None
            await until(
                lambda: not refusals.left and len(data.coordinator.shards) == 2, "both partitions are coordinated"
            )
            assert not one.ended
            wire.close()

    run(work)
