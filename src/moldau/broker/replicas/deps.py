"""What the data plane needs of the node around it, in one value; and the brokers as replication wants to see them.

Decides nothing. The node builds ``ReplicaManagerDeps``; tests build others. Read next: ``replicas/manager.py``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from moldau.client.lines import Line
from moldau.image import Image
from moldau.model.protocol import Protocol
from moldau.model.value import field, value
from moldau.ports import World
from moldau.storage import LogDirs
from moldau.wire.schema import Request, ResponseT


class ReplicaSettings(Protocol):
    """The node's configuration, as ``moldau.broker.config.node_config.NodeConfig`` has it."""

    @property
    def inter_broker_listener(self) -> str: ...

    def __getitem__(self, name: str) -> Any: ...  # Any: keys have values of several types

    def static_topic_config(self) -> Mapping[str, str]: ...


class SendToController(Protocol):
    """Sends a request to the active controller, once."""

    def __call__(self, message: Request[ResponseT], /) -> Awaitable[ResponseT]: ...


class HeldBytes(Protocol):
    """Who counts the bytes of requests, as this file needs it."""

    def hold(self, size: int) -> None:
        """So many bytes wait."""

    def forget(self, size: int) -> None:
        """They are gone."""

    def know_sessions(self, is_long: Callable[[int], bool]) -> None:
        """Ask ``is_long`` from now on whether a fetch of the session of an id is a long request."""


class Uncounted:
    """``HeldBytes`` where nobody counts."""

    def hold(self, size: int) -> None:
        """Do nothing."""

    def forget(self, size: int) -> None:
        """Do nothing."""

    def know_sessions(self, is_long: Callable[[int], bool]) -> None:
        """Do nothing."""


@value(kw_only=True)
class ReplicaManagerDeps:
    """The node as its replicas see it.

    ``send_to_controller`` makes one attempt and raises OSError when there is no answer. ``connect`` opens a line to an
    address. ``on_leader_refused`` is called with a leader whose address refuses connections (fast death),
    ``on_leader_lost`` with one whose connection has just ended, ``on_unexpected_error`` with an error that nobody
    expected and that costs no more than one partition's turn. ``requests`` counts the bytes of batches that wait to be
    examined.
    """

    me: int
    world: World
    config: ReplicaSettings
    logs: LogDirs
    send_to_controller: SendToController
    connect: Callable[[str, int], Awaitable[Line]]
    broker_epoch: Callable[[], int]
    on_leader_refused: Callable[[int], object] = lambda broker_id: None
    on_unexpected_error: Callable[[str, BaseException], object] = lambda where, error: None
    on_leader_lost: Callable[[int], object] = lambda broker_id: None
    requests: HeldBytes = field(default_factory=Uncounted)


class BrokersSeen:
    """The brokers of the image, as ``moldau.replication`` asks about them."""

    __slots__ = ("_me", "_own_epoch", "image")

    def __init__(self, me: int, own_epoch: Callable[[], int]) -> None:
        self._me = me
        self._own_epoch = own_epoch
        self.image = Image()

    def broker_epoch(self, broker_id: int) -> int | None:
        if broker_id == self._me:
            return self._own_epoch()  # known from the registration, maybe before the image has it
        broker = self.image.brokers.get(broker_id)
        return None if broker is None else broker.epoch

    def may_join_isr(self, broker_id: int) -> bool:
        broker = self.image.brokers.get(broker_id)
        return broker is not None and not broker.fenced and not broker.in_controlled_shutdown
