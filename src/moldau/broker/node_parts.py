"""What parts above the controller's and the replicas' ask of the node around them, in pieces as in ``host.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.model.protocol import Protocol

if TYPE_CHECKING:
    from moldau.broker.controller.channel import NodeToControllerChannel
    from moldau.broker.controller.service import ControllerService
    from moldau.broker.metadata.state_change_log import StateChangeLog
    from moldau.broker.replicas.manager import ReplicaManager
    from moldau.client.connection import ConnectionOptions


class WithControllerChannel(Protocol):
    """A node that asks the active controller."""

    @property
    def controller_channel(self) -> NodeToControllerChannel: ...


class WithController(Protocol):
    """A node that may be the active controller."""

    @property
    def controller(self) -> ControllerService: ...


class WithReplicas(Protocol):
    """A broker whose logs are loaded."""

    @property
    def replicas(self) -> ReplicaManager: ...


class WithBrokerChannels(WithController, Protocol):
    """A controller that tells brokers in ZooKeeper mode what it decided."""

    @property
    def connection_options(self) -> ConnectionOptions: ...

    @property
    def state_change_log(self) -> StateChangeLog: ...
