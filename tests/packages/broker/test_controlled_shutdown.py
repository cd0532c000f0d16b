"""Under a quorum nobody sends a broker away who cannot name its epoch: it would be out of all ISRs until it is
registered again, with nobody to tell it so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moldau.broker.api import k07_controlled_shutdown
from moldau.model import Code
from moldau.wire.messages.k07_controlled_shutdown import ControlledShutdownRequest
from tests.packages.broker.context import ContextValue
from tests.packages.broker.data_cluster import run
from tests.packages.broker.whole_node import whole_node


@pytest.mark.parametrize("version", range(4))
def test_a_request_without_the_brokers_epoch_is_refused_and_changes_nothing(tmp_path: Path, version: int) -> None:
    async def work() -> None:
        async with whole_node(tmp_path) as whole:
            node: Any = whole.node
            before = node.metadata.image.brokers[1]
            asked = ControlledShutdownRequest(broker_id=1)
            answer = await k07_controlled_shutdown.control(node, asked, ContextValue(api_version=version))
            assert answer.error_code == Code.STALE_BROKER_EPOCH
            assert node.metadata.image.brokers[1] == before
            assert not before.in_controlled_shutdown

    run(work)
