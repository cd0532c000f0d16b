"""What pages about a node read of it: figures, health."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from moldau.broker.host import Host
from moldau.model.protocol import Protocol

if TYPE_CHECKING:
    from moldau.broker.controller.service import ControllerService
    from moldau.broker.data import DataSide
    from moldau.broker.groups.coordinator import Coordinator
    from moldau.broker.lifecycle import Stage
    from moldau.broker.network.listener import SocketListener
    from moldau.broker.replicas.manager import ReplicaManager
    from moldau.quorum import Quorum


class ReportedPlane(Protocol):
    """Who is controller, as far as the node knows."""

    @property
    def leader(self) -> tuple[int | None, int]: ...

    @property
    def why_no_controller(self) -> str:
        """See ``services.Plane``."""

    @property
    def quorum(self) -> Quorum | None: ...

    @property
    def missing_log(self) -> str:
        """Why this node's next start would not find the metadata log that it writes; "" when it would, and in ZooKeeper
        mode."""

    @property
    def unregistered(self) -> str:
        """Why others take this broker for dead, though nobody has told it so; "" when they do not, and in KRaft mode,
        where a broker that is not heard of hears of no controller."""


class WithStage(Protocol):
    """How far a broker's life has come."""

    @property
    def stage(self) -> Stage: ...


class Reported(Host, Protocol):
    """A node whose figures are shown."""

    @property
    def has_joined(self) -> bool:
        """Whether the node has a ``plane``: not at the beginning of its start."""

    @property
    def plane(self) -> ReportedPlane: ...

    @property
    def coordinator(self) -> Coordinator: ...

    @property
    def data(self) -> DataSide | None: ...

    @property
    def listeners(self) -> Sequence[SocketListener]: ...

    @property
    def lifecycle(self) -> WithStage | None: ...

    @property
    def loaded(self) -> bool: ...

    @property
    def controller(self) -> ControllerService: ...

    @property
    def replicas(self) -> ReplicaManager: ...

    @property
    def survivals(self) -> Mapping[str, int]: ...

    def survived(self, where: str, error: BaseException) -> None: ...

    def healthy(self) -> bool: ...
