"""A batch of requests is sent whole before another is begun; where it was not, the controller role is given up."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from moldau.broker.metadata.state_change_log import StateChangeLog
from moldau.broker.zookeeper import batch
from moldau.broker.zookeeper.channels import Channels
from moldau.broker.zookeeper.request_batch import RequestBatch, UnsentRequests
from moldau.broker.zookeeper.rules import Rules
from moldau.client.admin import NewTopic, create_topics
from moldau.image import Delta, Image
from moldau.model import Code
from moldau.wire.messages.k06_update_metadata import UpdateMetadataRequest
from tests.packages.broker.data_cluster import run, until
from tests.packages.broker.doubles import NodeDouble, zookeeper_config
from tests.packages.broker.zookeeper_nodes import Nodes
from tests.packages.doubles import ManualTasks, manual_world


def test_one_batch_after_the_other_is_begun_and_sent() -> None:
    requests = RequestBatch()
    requests.begin()[1] = [UpdateMetadataRequest()]
    requests.sent()
    assert requests.begin() == {}


def test_a_batch_is_refused_while_the_one_before_is_not_sent_and_what_would_be_lost_is_named() -> None:
    requests = RequestBatch()
    requests.begin()[3] = [UpdateMetadataRequest()]
    with pytest.raises(UnsentRequests, match=r"\{3: \['UpdateMetadataRequest'\]\}"):
        requests.begin()


class UnwrittenLog:
    """A state-change log that nobody keeps."""

    is_traced = False

    def say(self, *about: object) -> None: ...

    def stepped(self, *about: object) -> None: ...


def test_a_controller_whose_batch_failed_half_way_sends_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    tasks = ManualTasks()
    world = manual_world(tasks=tasks)
    unwritten = cast("StateChangeLog", UnwrittenLog())
    channels = Channels(NodeDouble(config=zookeeper_config(), world=world, state_change_log=unwritten), Rules())
    channels.on_unsent.append(told.append)
    channels._sender = batch.SendingController(controller_id=1, controller_epoch=1, listener="IN")
    real = batch.requests

    def fails(*given: Any) -> Any:
        raise ValueError("of a test")

    monkeypatch.setattr(batch, "requests", fails)
    with pytest.raises(ValueError, match="of a test"):
        channels.send_changes(Image(), Delta())
    assert told == []
    monkeypatch.setattr(batch, "requests", real)
    channels.send_changes(Image(), Delta())
    tasks.turn()
    assert len(told) == 1
    assert "have not been sent" in told[0]
    channels.send_changes(Image(), Delta())
    channels.close()
    channels.open(2, 0)  # another office begins with everything
    channels.send_changes(Image(), Delta())
    assert tasks.turn()  # what was refused in the office before ends none
    assert not tasks.turn()
    assert len(told) == 1


def test_a_controller_that_cannot_begin_a_batch_resigns_and_the_next_tells_every_broker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path, 2) as nodes:
            client, plane = nodes.client(), nodes.controller.plane
            assert plane is not None
            before = nodes.controllers
            plane.channels._batch.begin()  # type: ignore[union-attr]  # as of an event that failed half way
            made = await create_topics(client, [NewTopic(name="t", partitions=1, replication_factor=2)])
            assert made["t"].code in (Code.NONE, Code.TOPIC_ALREADY_EXISTS)  # asked again of the next controller
            await until(lambda: nodes.controllers not in ([], before), "another controller epoch begins")
            await until(nodes.agree, "every broker was told of the topic")
            assert all("t" in node.metadata.image.names for node in nodes.nodes.values())
            assert "no further requests can be sent" in caplog.text
            client.close()

    run(scenario)
