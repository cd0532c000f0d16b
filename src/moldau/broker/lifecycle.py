"""A broker's life with the controller: register, send heartbeats, be unfenced, ask leave to go.

Registers until it is accepted, sends a heartbeat every broker.heartbeat.interval.ms, and at once whenever one could
change something (metadata caught up, controller changed, shutdown wanted). It needs the loop and the disk for that: a
node whose disk hangs sends none, and is fenced. What the controller makes of it is ``moldau.controller``.
Source: KIP-631, KIP-841.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Sequence

from moldau.broker.host import Host, WithClusterId, WithOwnEndpoints, WithPeers
from moldau.broker.node_parts import WithControllerChannel
from moldau.controller.feature_support import ADVICE, unsupported
from moldau.controller.features import REGISTERED
from moldau.image import Endpoint
from moldau.model import Code
from moldau.model.backoff import longer_ms
from moldau.model.ids import uuid_text
from moldau.model.protocol import Protocol
from moldau.ports import Handle
from moldau.ports.buggify import LATE_HEARTBEAT, UNHEARD_REGISTRATION
from moldau.wire.messages.k62_broker_registration import BrokerRegistrationRequest
from moldau.wire.messages.k63_broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse

log = logging.getLogger(__name__)

RETRY_MS = 25
RETRY_MAX_MS = 1000
COPIED = (
    "The folder, or its meta.properties, was copied from there, or written by hand: take the folder out of log.dirs, or"
    " remove the line directory.id from its meta.properties to have another id given"
)


class Stage(enum.Enum):
    """Where a broker stands: only a RUNNING one is of use to clients."""

    STARTING = "starting"
    FENCED = "registered, fenced"
    RUNNING = "running"
    LEAVING = "in controlled shutdown"
    GONE = "gone"


class RegistrationRefused(Exception):
    """The cluster will not have this broker: another lives under its id, or it belongs to another cluster."""


class LifecycleHost(Host, WithControllerChannel, WithClusterId, WithPeers, WithOwnEndpoints, Protocol):
    """What a broker's life depends on."""

    @property
    def admitted(self) -> bool: ...

    def healthy(self) -> bool: ...

    def registered(self, epoch: int) -> None: ...

    def directories(self) -> dict[bytes, str]: ...

    def offline_dirs(self) -> list[bytes]: ...

    def previous_broker_epoch(self) -> int: ...


class Lifecycle:
    """The conversation of one broker with whoever is the active controller."""

    def __init__(self, node: LifecycleHost) -> None:
        self._node = node
        self._world = node.world
        self.stage = Stage.STARTING
        self.epoch = -1
        """Broker epoch: the offset of our registration record; -1 before."""
        self.incarnation_id: bytes = node.world.random.uuid()
        self.running = asyncio.Event()
        self._left = asyncio.Event()
        self._allowed = False
        self._hurried = False
        self._still_led = -1
        self._wake = asyncio.Event()
        self._task: Handle | None = None
        self._refused_since_ms: int | None = None
        """When the controller first said that another process has our id."""

    def start(self) -> None:
        self._node.metadata.subscribe(
            lambda image, delta: self.send_heartbeat_now() if self.stage is not Stage.RUNNING else None
        )
        self._task = self._world.tasks.spawn(self._live(), "lifecycle")

    def directory_failed(self) -> None:
        """The next heartbeat says so, and is sent now (KIP-858)."""
        self.send_heartbeat_now()

    def send_heartbeat_now(self) -> None:
        """Something changed that a heartbeat would tell or learn."""
        self._wake.set()

    async def leave(self) -> bool:
        """Ask for a controlled shutdown, as often and as long as the configuration says; whether leave was given."""
        config = self._node.config
        if self.stage in (Stage.STARTING, Stage.GONE) or not config["controlled.shutdown.enable"]:
            self.stop()
            return False
        log.info("Starting controlled shutdown")
        started_ms = self._world.clock.monotonic_ms()
        self.stage = Stage.LEAVING
        self.send_heartbeat_now()
        patience_ms = (config["controlled.shutdown.max.retries"] + 1) * config["controlled.shutdown.retry.backoff.ms"]
        timer = self._world.tasks.call_later(patience_ms, self._left.set)
        await self._left.wait()
        timer.cancel()
        self.stop()
        if self._hurried and not self._allowed:
            log.warning("told twice to stop: this broker goes without having handed over what it leads")
            return False
        if not self._allowed:
            log.warning("Proceeding to do an unclean shutdown as all the controlled shutdown attempts failed")
            return False
        took_ms = self._world.clock.monotonic_ms() - started_ms
        log.info("Controlled shutdown request returned successfully after %dms", took_ms)
        return True

    def hurry(self) -> None:
        """Go without leave, such as when nobody is left who could give it."""
        self._hurried = True
        self._left.set()

    def stop(self) -> None:
        """Say nothing more to the controller."""
        self.stage = Stage.GONE
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _live(self) -> None:
        await self._register()
        wait_ms: float = 0
        while not self._left.is_set():
            answer = await self._send_heartbeat()
            if answer is None:
                wait_ms = longer_ms(wait_ms, RETRY_MS, RETRY_MAX_MS)
            elif answer.error_code in (Code.STALE_BROKER_EPOCH, Code.BROKER_ID_NOT_REGISTERED):
                log.warning(
                    "the controller no longer knows this incarnation (%s); registering again",
                    Code(answer.error_code).name,
                )
                await self._register()
                wait_ms = 0
            else:
                wait_ms = self._node.config["broker.heartbeat.interval.ms"] if self._settled(answer) else 2 * RETRY_MS
            await self._pause(wait_ms)
            if (buggify := self._world.buggify) is not None and buggify(LATE_HEARTBEAT):
                await self._pause(self._node.config["broker.heartbeat.interval.ms"])
        self.stage = Stage.GONE

    async def _pause(self, wait_ms: float) -> None:
        timer = self._world.tasks.call_later(wait_ms, self._wake.set)
        await self._wake.wait()
        timer.cancel()
        self._wake.clear()

    def _settled(self, answer: BrokerHeartbeatResponse) -> bool:
        """Take in an answer; whether nothing is pending that an early heartbeat would move."""
        if answer.error_code != Code.NONE:
            return False
        if answer.should_shut_down and self.stage is Stage.LEAVING:
            self._allowed = True
            self._left.set()
            return True
        if self.stage is Stage.LEAVING:
            self._tell_progress()
            return False
        if answer.is_fenced:
            if self.stage is Stage.RUNNING:
                log.warning("this broker was fenced; it goes on asking to be let back in")
            self.stage = Stage.FENCED
            return False
        if self.stage is not Stage.RUNNING:
            log.info("broker %d is unfenced and serves", self._node.config.node_id)
        self.stage = Stage.RUNNING
        self.running.set()
        return True

    def _tell_progress(self) -> None:
        """How many partitions are still led here, whenever that has changed."""
        left = len(self._node.metadata.image.index.led.get(self._node.config.node_id, ()))
        if left != self._still_led:
            self._still_led = left
            log.info("Controlled shutdown goes on: %d partition(s) are still led here", left)

    async def _send_heartbeat(self) -> BrokerHeartbeatResponse | None:
        node = self._node
        if not node.healthy():
            return None  # silence is the right word for a node whose disk hangs
        request = BrokerHeartbeatRequest(
            broker_id=node.config.node_id,
            broker_epoch=self.epoch,
            current_metadata_offset=node.metadata.offset,
            want_fence=not node.admitted,
            want_shut_down=self.stage is Stage.LEAVING,
            offline_log_dirs=node.offline_dirs(),
        )
        try:
            timeout_ms = node.config["broker.session.timeout.ms"] // 2
            answer = await node.controller_channel.send(request, timeout_ms=timeout_ms)
        except OSError as error:
            log.debug("no answer to a heartbeat: %s", error)
            return None
        return None if answer.error_code == Code.NOT_CONTROLLER else answer

    async def _register(self) -> None:
        """Ask to be registered until we are; RegistrationRefused when it is hopeless."""
        deadline_ms = self._world.clock.monotonic_ms() + self._node.config["initial.broker.registration.timeout.ms"]
        wait_ms: float = RETRY_MS
        why = "no controller was found"
        while True:
            try:
                answer = await self._node.controller_channel.send(self._request())
                if (buggify := self._world.buggify) is not None and buggify(UNHEARD_REGISTRATION):
                    raise ConnectionError("the answer is lost")
                if answer.error_code == Code.NONE:
                    self.epoch = answer.broker_epoch
                    self.stage = Stage.FENCED if self.stage is not Stage.LEAVING else self.stage
                    log.info("registered with broker epoch %d", self.epoch)
                    self._node.registered(self.epoch)
                    return
                why = await self._refusal(Code(answer.error_code))
            except OSError as error:
                why = str(error) or type(error).__name__
            if self._world.clock.monotonic_ms() >= deadline_ms:
                raise RegistrationRefused(f"not registered within initial.broker.registration.timeout.ms: {why}")
            await self._pause(wait_ms)
            wait_ms = min(wait_ms * 1.5, RETRY_MAX_MS)

    async def _refusal(self, code: Code) -> str:
        node = self._node
        if code is Code.INCONSISTENT_CLUSTER_ID:
            raise RegistrationRefused(
                f"the cluster behind controller.quorum.voters is another one: this node's meta.properties names cluster"
                f" {node.cluster_id}"
            )
        if code is Code.DUPLICATE_BROKER_REGISTRATION and self.epoch < 0 and await self._is_duplicate():
            raise RegistrationRefused(self._duplicate())
        if code is Code.UNSUPPORTED_VERSION:
            levels = "; ".join(unsupported(node.metadata.image.features))
            raise RegistrationRefused(f"the controller refuses this broker: {code.name}: {levels}; {ADVICE}")
        if code is Code.INVALID_REGISTRATION and (why := self._taken_directories()):
            raise RegistrationRefused(f"the controller refuses this broker: {code.name}: {why}")
        return f"the controller answered {code.name}"  # the metadata that say why may be on the way here

    def _taken_directories(self) -> str:
        """Which log directories have ids that this broker may not register, and why; empty when the metadata do not
        say."""
        node = self._node
        owners = {
            id: broker.id
            for broker in node.metadata.image.brokers.values()
            for id in broker.log_dirs
            if broker.id != node.config.node_id
        }
        told = [
            f"{path} has directory.id {uuid_text(id)}, {whose}"
            for id, path in node.directories().items()
            if (whose := f"which broker {owners[id]} has registered" if id in owners else _reserved(id))
        ]
        return f"{'; '.join(told)}. {COPIED}" if told else ""

    async def _is_duplicate(self) -> bool:
        """Whether the registration in the way is that of a living process, and not of an earlier one of ours that the
        controller still believes alive.

        It is when somebody answers at another address than ours, and when it outlives the session that a dead process
        would have had.
        """
        node, now_ms = self._node, self._world.clock.monotonic_ms()
        if self._refused_since_ms is None:
            self._refused_since_ms = now_ms
        patience_ms = node.config["broker.session.timeout.ms"] + 2 * node.config["broker.heartbeat.interval.ms"]
        if now_ms - self._refused_since_ms > patience_ms:
            return True
        mine = {(e.host, e.port) for e in node.own_endpoints()}
        there = [(e.host, e.port) for e in self._registered_endpoints()]
        for host, port in there if mine.isdisjoint(there) else ():
            if await node.peers.accepts(host, port):
                return True
        return False

    def _registered_endpoints(self) -> Sequence[Endpoint]:
        broker = self._node.metadata.image.brokers.get(self._node.config.node_id)
        return () if broker is None else broker.endpoints

    def _duplicate(self) -> str:
        """Why we must not live, naming both processes."""
        node = self._node
        other = node.metadata.image.brokers.get(node.config.node_id)
        who = "" if other is None else f", incarnation {uuid_text(other.incarnation_id)}"
        where = ", ".join(map(_address, self._registered_endpoints())) or "an unknown address"
        ours = ", ".join(map(_address, node.own_endpoints()))
        return (
            f"another live broker is registered under node.id {node.config.node_id}, at {where}{who}; this process, at"
            f" {ours}, incarnation {uuid_text(self.incarnation_id)}, is refused: stop the other, or give this node"
            " another id"
        )

    def _request(self) -> BrokerRegistrationRequest:
        node = self._node
        request = BrokerRegistrationRequest
        return request(
            broker_id=node.config.node_id,
            cluster_id=node.cluster_id,
            incarnation_id=self.incarnation_id,
            listeners=[
                request.Listener(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
                for e in node.own_endpoints()
            ],
            features=[
                request.Feature(name=f.name, min_supported_version=f.low, max_supported_version=f.high)
                for f in REGISTERED
            ],
            rack=node.config["broker.rack"],
            log_dirs=list(node.directories()),
            previous_broker_epoch=node.previous_broker_epoch(),
        )


def _address(endpoint: Endpoint) -> str:
    return f"{endpoint.name}://{endpoint.host}:{endpoint.port}"


def _reserved(directory: bytes) -> str:
    """What is wrong with an id that stands for no directory; empty for one that may."""
    return "" if any(directory[:15]) else "which is reserved"
