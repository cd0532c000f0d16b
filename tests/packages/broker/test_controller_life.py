"""Fast death: what the controller's node makes of a closed connection. Real loop and timers, a scripted listener."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from moldau.broker.api import k62_broker_registration
from moldau.broker.config.node_config import NodeConfig
from moldau.broker.controller import failure_detector
from moldau.broker.controller import service as controller
from moldau.broker.controller.channel import LocalContext
from moldau.broker.controller.failure_detector import is_refused
from moldau.broker.controller.service import ControllerService
from moldau.broker.network.peers import Peers
from moldau.controller.replies import Moved
from moldau.controller.requests import BrokerHeartbeat, RebalanceLeaders
from moldau.image import Endpoint, Image
from moldau.model import Code
from moldau.runtime.world import real_world
from moldau.wire.messages.k62_broker_registration import BrokerRegistrationRequest
from moldau.wire.records import metadata as records
from tests.packages.broker.data_cluster import run, until
from tests.packages.broker.doubles import PlaneDouble, controller_services, metadata


class ProposingPlane(PlaneDouble):
    """A plane that takes what it is given, and commits nothing."""

    def __init__(self) -> None:
        super().__init__(next_offset=2)
        self.proposed: list[Any] = []

    def propose(self, batch: Sequence[Any], epoch: int) -> int:
        self.proposed += batch
        self.next_offset += len(batch)
        return self.next_offset - 1


class ProbedPeers(Peers):
    """Connections to brokers, whose ports are only probed; ``probe`` is what a probe finds."""

    def __init__(self, probe: Callable[[], bool]) -> None:
        self.probes, self.probe = 0, probe

    async def refuses(self, host: str, port: int) -> bool:
        self.probes += 1
        return self.probe()


class ActiveControllerNode:
    """An active controller with broker 7 registered and unfenced; ``probe`` is what a probe of its port finds."""

    def __init__(self, probe: Callable[[], bool]) -> None:
        self.failures: list[BaseException] = []
        self.lifecycle = self.migration = None
        self.world = real_world(asyncio.get_running_loop(), lambda task, error: self.failures.append(error))
        self.config = NodeConfig(
            {
                "node.id": "1", "process.roles": "controller", "listeners": "CONTROLLER://127.0.0.1:0",
                "controller.listener.names": "CONTROLLER", "controller.quorum.voters": "1@localhost:1",
                "broker.session.timeout.ms": "600000",  # no machine is so slow that a session ends in these scenes
            }
        )  # fmt: skip
        self.cluster_id = "mini"
        image = Image()
        socket_listener = records.RegisterBrokerRecord.BrokerEndpoint(name="PLAINTEXT", host="127.0.0.1", port=9092)
        image.apply(
            records.RegisterBrokerRecord(broker_id=7, broker_epoch=1, end_points=[socket_listener], fenced=False), 1
        )
        self.metadata = metadata(image)
        self.plane = ProposingPlane()
        self.peers = ProbedPeers(probe)
        self.controller = ControllerService(self)
        self.controller.start()

    @property
    def proposed(self) -> list[Any]:
        return self.plane.proposed

    @property
    def fenced(self) -> list[int]:
        changes = [r for r in self.proposed if isinstance(r, records.BrokerRegistrationChangeRecord)]
        return [change.broker_id for change in changes if change.fenced == 1]

    def settle(self) -> None:
        """Become active and forget which addresses it tried then."""
        self.controller.connection_is_of("first connection", 7)
        self.controller.became_active(1)


def test_a_listener_that_still_accepts_while_its_process_dies_is_probed_again() -> None:
    """A killed process closes its connections before its listeners: the first probe may come between the two."""

    async def scenario() -> None:
        node = ActiveControllerNode(lambda: node.peers.probes > 2)
        node.settle()
        node.controller.failure_detector.connection_closed("first connection")
        await until(lambda: node.fenced == [7], "the broker is fenced")
        node.controller.stop()
        assert not node.failures

    run(scenario)


def test_a_broker_that_connects_again_is_not_probed_any_more() -> None:
    async def scenario() -> None:
        def probe() -> bool:
            node.controller.connection_is_of("second connection", 7)
            return False

        node = ActiveControllerNode(probe)
        node.settle()
        node.controller.failure_detector.connection_closed("first connection")
        await until(
            lambda: node.peers.probes == 1 and not node.controller.failure_detector.is_probing, "the probe is over"
        )
        node.controller.stop()
        assert (node.fenced, node.peers.probes, node.failures) == ([], 1, [])

    run(scenario)


def test_a_port_that_stays_open_is_left_to_the_session_timeout() -> None:
    async def scenario() -> None:
        node = ActiveControllerNode(lambda: False)
        node.settle()
        node.controller.failure_detector.connection_closed("first connection")
        await until(lambda: not node.controller.failure_detector.is_probing, "the probe is over")
        node.controller.stop()
        assert (node.fenced, node.failures) == ([], [])
        assert node.peers.probes > 2

    run(scenario)


def test_leads_are_given_back_pass_after_pass_until_none_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass is bounded, and the next one is not minutes away."""
    passes: list[Any] = []

    async def submit(self: ControllerService, ask: Any) -> Any:
        passes.append(ask)
        return Moved(count=1000, more=len(passes) < 4)

    async def scenario() -> None:
        node = ActiveControllerNode(lambda: False)
        node.settle()
        await until(lambda: len(passes) == 4, "four passes")
        await asyncio.sleep(0.05)
        assert passes == [RebalanceLeaders()] * 4
        node.controller.stop()
        assert not node.failures

    monkeypatch.setattr(controller, "FIRST_REBALANCE_MS", 1)
    monkeypatch.setattr(ControllerService, "submit", submit)
    run(scenario)


# ---- another process under the id of a broker


class Claimed(ActiveControllerNode):
    """Broker 7 is registered as incarnation 0; another process claims its id."""

    def __init__(self, *, refuses: bool) -> None:
        super().__init__(lambda: refuses)
        self.lifecycle = None

    async def is_gone(self) -> bool:
        return await self.controller.predecessor_is_gone(7)

    def sends_heartbeat(self, connection: str) -> None:
        self.controller.submit_nowait(BrokerHeartbeat(broker_id=7, broker_epoch=1, metadata_offset=1))
        self.controller.connection_is_of(connection, 7)


@pytest.mark.parametrize("refuses", [True, False])
def test_a_broker_that_is_heard_is_never_replaced_whatever_its_address_does(refuses: bool) -> None:
    async def scenario() -> None:
        node = Claimed(refuses=refuses)
        node.controller.became_active(1)
        node.sends_heartbeat("a")
        assert not await node.is_gone()
        node.controller.stop()

    run(scenario)


@pytest.mark.parametrize("id", [7, 8])
def test_of_two_processes_that_claim_an_id_at_once_one_is_refused(id: int) -> None:
    """That the process of broker 7 is dead says nothing of one that is registered while this is found out; nor does it
    that no broker 8 was known."""

    async def scenario() -> None:
        node = Claimed(refuses=True)
        node.controller.became_active(1)
        services = controller_services(node.metadata.image, world=node.world, controller=node.controller)
        requests = [
            BrokerRegistrationRequest(broker_id=id, cluster_id="mini", incarnation_id=bytes([life]) * 16)
            for life in (1, 2)
        ]
        claims = [
            asyncio.ensure_future(k62_broker_registration.control(services, one, LocalContext(one))) for one in requests
        ]
        before = node.controller.awaiting_commit
        await until(lambda: node.controller.awaiting_commit == before + 2, "both are decided")
        node.controller.committed((), node.plane.next_offset - 1, 1)
        codes = [Code((await claim).error_code) for claim in claims]
        assert sorted(codes) == [Code.NONE, Code.DUPLICATE_BROKER_REGISTRATION]
        assert sum(isinstance(record, records.RegisterBrokerRecord) for record in node.proposed) == 1
        node.controller.stop()

    run(scenario)


def test_a_broker_whose_connection_broke_is_replaced_at_once_when_its_address_refuses() -> None:
    async def scenario() -> None:
        node = Claimed(refuses=True)
        node.controller.became_active(1)
        node.sends_heartbeat("a")
        node.controller.failure_detector.connection_closed("a")
        assert await node.is_gone()
        node.controller.stop()

    run(scenario)


def test_a_broker_whose_address_still_answers_has_the_time_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection broke and another was made; or it is dead, and a proxy answers for it."""

    async def scenario() -> None:
        node = Claimed(refuses=False)
        node.controller.became_active(1)
        assert not await node.is_gone(), "nobody has seen anything of it yet"
        node.sends_heartbeat("a")
        node.controller.failure_detector.connection_closed("a")
        assert not await node.is_gone()
        node.sends_heartbeat("b")
        monkeypatch.setattr(failure_detector, "RECONNECT_MS", -10_000_000)
        assert not await node.is_gone(), "it came back"
        node.controller.failure_detector.connection_closed("b")
        assert await node.is_gone(), "it has been away for longer than a living one"
        node.controller.stop()

    run(scenario)


def test_a_refused_listener_for_clients_is_no_death_where_the_one_for_brokers_answers() -> None:
    asked: list[str] = []

    class Peers:
        async def refuses(self, host: str, port: int) -> bool:
            asked.append(host)
            return host == "outside"

    async def scenario() -> None:
        endpoints = [Endpoint("EXTERNAL", "outside", 9094), Endpoint("INTERNAL", "inside", 9092)]
        assert not await is_refused(Peers(), endpoints, "INTERNAL")
        assert asked == ["inside"]
        assert not await is_refused(Peers(), endpoints, "UNKNOWN"), "one of them answers"
        assert await is_refused(Peers(), endpoints[:1], "UNKNOWN")
        assert not await is_refused(Peers(), (), "INTERNAL")

    run(scenario)
