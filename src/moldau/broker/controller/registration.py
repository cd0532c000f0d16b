"""A controller presents itself to whoever is the active one, itself included (KIP-919).

Says which addresses and features it has whenever the committed metadata do not show this very process; tries until they
do. What is made of it: the level of a feature is raised only as far as every controller goes, and clients of controller
listeners learn the addresses. Decides nothing: ``moldau.controller.brokers`` does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from moldau.broker.controller.channel import NodeToControllerChannel
from moldau.broker.host import Host
from moldau.controller.features import REGISTERED
from moldau.image.registration import Controller, Endpoint
from moldau.model import Code
from moldau.model.backoff import longer_ms
from moldau.model.protocol import Protocol
from moldau.ports import Handle
from moldau.wire.messages.k70_controller_registration import ControllerRegistrationRequest

log = logging.getLogger(__name__)

RETRY_MS = 50
RETRY_MAX_MS = 2_000


class Presented(Host, Protocol):
    """A controller that has listeners."""

    @property
    def controller_channel(self) -> NodeToControllerChannel: ...

    def controller_endpoints(self) -> Sequence[Endpoint]: ...


class ControllerRegistration:
    """One controller's registration."""

    def __init__(self, node: Presented) -> None:
        self._node = node
        self._world = node.world
        self._incarnation_id: bytes = node.world.random.uuid()
        self._changed = asyncio.Event()
        self._task: Handle | None = None

    def start(self) -> None:
        """Called when the listeners are bound."""
        self._node.metadata.watch(lambda image, delta: self._changed.set())
        self._task = self._world.tasks.spawn(self._live(), "controller registration")

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    @property
    def done(self) -> bool:
        """Whether the committed metadata show this process."""
        return bool(self._node.metadata.image.controllers.get(self._node.config.node_id) == self._wanted())

    def _wanted(self) -> Controller:
        node = self._node
        return Controller(
            node.config.node_id,
            self._incarnation_id,
            tuple(node.controller_endpoints()),
            REGISTERED,
            node.config.migrates,
        )

    async def _live(self) -> None:
        wait_ms: float = 0
        while True:
            if self.done:
                self._changed.clear()
                await self._changed.wait()
                wait_ms = 0
                continue
            if not await self._register():
                wait_ms = longer_ms(wait_ms, RETRY_MS, RETRY_MAX_MS)
                await self._pause(wait_ms)
            elif not self.done:
                await self._pause(RETRY_MAX_MS)  # told, and not yet seen

    async def _pause(self, wait_ms: float) -> None:
        self._changed.clear()
        timer = self._world.tasks.call_later(wait_ms, self._changed.set)
        await self._changed.wait()
        timer.cancel()

    async def _register(self) -> bool:
        wanted = self._wanted()
        kind = ControllerRegistrationRequest
        request = kind(
            controller_id=wanted.id,
            incarnation_id=wanted.incarnation_id,
            zk_migration_ready=wanted.zk_migration_ready,
            listeners=[
                kind.Listener(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
                for e in wanted.endpoints
            ],
            features=[
                kind.Feature(name=f.name, min_supported_version=f.low, max_supported_version=f.high)
                for f in wanted.features
            ],
        )
        try:
            answer = await self._node.controller_channel.send(request, RETRY_MAX_MS)
        except OSError as error:
            log.debug("no answer to a controller's registration: %s", error)
            return False
        if answer.error_code not in (Code.NONE, Code.NOT_CONTROLLER):
            log.warning("controller %d is not registered: %s", wanted.id, Code(answer.error_code).name)
        return bool(answer.error_code == Code.NONE)
