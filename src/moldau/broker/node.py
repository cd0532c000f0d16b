"""One node: its subsystems wired together, started, and stopped in order. Everything else is in them.

Receives its ports (``World``) and never builds any, so that the simulator runs this very file. Roles decide what is
wired: a controller has a Raft replica and a controller role, a broker logs, replicas and coordinators; both hold
the committed metadata. Read next: ``network/``, ``lifecycle.py`` (life with the controller), ``replicas/manager.py``.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from moldau.broker.api import ANSWERS, dispatch, handler
from moldau.broker.config.dynamic import DynamicConfig
from moldau.broker.config.listeners import LOOPBACK, EndPoint
from moldau.broker.config.node_config import NodeConfig
from moldau.broker.config.storage_format import FormatRefused
from moldau.broker.config.warnings_at_start import warn_of_settings
from moldau.broker.controller.channel import LocalContext, NodeToControllerChannel
from moldau.broker.controller.registration import ControllerRegistration
from moldau.broker.controller.service import ControllerService
from moldau.broker.controller.suspects import SuspectedBrokers
from moldau.broker.data import DataSide
from moldau.broker.kraft.files import BrokenQuorumState
from moldau.broker.kraft.peers import WrongCluster
from moldau.broker.kraft.plane import QuorumPlane
from moldau.broker.kraft.start_checks import own_meta
from moldau.broker.lifecycle import Lifecycle, RegistrationRefused
from moldau.broker.loop import run_in_slices
from moldau.broker.metadata.cache import MetadataCache
from moldau.broker.metadata.encoded_topics import EncodedTopics
from moldau.broker.metadata.recently_gone import RecentlyGone
from moldau.broker.metadata.state_change_log import StateChangeLog
from moldau.broker.network.connection_quotas import KEYS as LIMITS
from moldau.broker.network.connection_quotas import ConnectionQuotas
from moldau.broker.network.idle import IdleSweep
from moldau.broker.network.listener import SocketListener
from moldau.broker.network.listener_state import EARLY
from moldau.broker.network.memory import RequestMemory
from moldau.broker.network.peers import Peers
from moldau.broker.network.requests import BROKER, CONTROLLER, ZOOKEEPER, Outcome, RequestRead
from moldau.broker.quotas.clients import ClientQuotas
from moldau.broker.replicas.manager import ReplicaManager
from moldau.broker.services import BrokerServices, ControllerServices
from moldau.client.connection import ConnectionOptions
from moldau.controller.feature_support import UnsupportedLevel
from moldau.image import Endpoint
from moldau.ports import Listener as BoundListener
from moldau.ports import PlaneEvents, World
from moldau.quorum.follower import CommittedMetadataLost
from moldau.storage.errors import BrokerWithoutDisk, LogError
from moldau.wire.schema import Message

if TYPE_CHECKING:
    from moldau.broker.groups.coordinator import Coordinator
    from moldau.broker.metrics.page import Pages
    from moldau.broker.migration.driver import MigrationDriver
    from moldau.broker.zookeeper.host import ZooKeeperHost
    from moldau.broker.zookeeper.lifecycle import ZooKeeperLifecycle
    from moldau.broker.zookeeper.plane import ZooKeeperPlane

log = logging.getLogger(__name__)


class StartRefused(Exception):
    """The node cannot start; the text says what is in the way and what to do."""


TOLD = (StartRefused, RegistrationRefused, WrongCluster, UnsupportedLevel, CommittedMetadataLost, BrokerWithoutDisk)
"""What ends a node and says all by itself: it is told without a traceback."""


class Node:
    """A broker, a controller, or both. ``ended(exit code)`` is called once, when the process should go."""

    def __init__(self, config: NodeConfig, world: World, ended: Callable[[int], object]) -> None:
        self.config = config
        self.world = world
        self._ended = ended
        self.cluster_id = ""
        self.metadata = MetadataCache(world.step)
        self.encoded_topics = EncodedTopics()
        self.metadata.watch(self.encoded_topics.changed)
        self.recently_gone = RecentlyGone(world.clock, self.metadata)
        self.dynamic = DynamicConfig(config)
        self.quotas = ClientQuotas(world.clock, config.__getitem__)
        self.metadata.watch(self.quotas.changed)
        self.limits = ConnectionQuotas(world, config.__getitem__, self.quotas)
        for key in LIMITS:
            self.dynamic.react(key, self.limits.reconfigure)
        self.metadata.watch(self.dynamic.apply)
        self.pages: Pages | None = None
        self.listeners: list[SocketListener] = []
        self.request_memory = RequestMemory.of(world.tasks, config.__getitem__)
        self.bound: dict[str, BoundListener] = {}
        self.connection_options = ConnectionOptions(
            client_id=f"node-{config.node_id}", request_timeout_ms=config["request.timeout.ms"]
        )
        self.peers = Peers(world, self.connection_options)
        self.controller_channel = NodeToControllerChannel(self, self._decide_locally if config.is_controller else None)
        self.creating: Counter[str] = Counter()
        """Topics whose creation this broker asked for by itself and has no answer to yet: how often."""
        self._plane: QuorumPlane | ZooKeeperPlane | None = None
        self._controller = ControllerService(self) if config.is_controller else None
        self.zookeeper: ZooKeeperHost | None = None
        self.registering = ControllerRegistration(self) if config.is_controller and not config.on_zookeeper else None
        self.lifecycle: Lifecycle | ZooKeeperLifecycle | None = self._lifecycle() if config.is_broker else None
        self.data: DataSide | None = None
        self._broker: BrokerServices | None = None
        self._controller_services: ControllerServices | None = None
        self.state_change_log = StateChangeLog(self)
        self.admitted = False
        """Whether clients may come: before, the controller must not let this broker lead."""
        self.migration: MigrationDriver | None = None
        self.survivals: Counter[str] = Counter()
        """Errors that nobody expected and that stopped nothing, by where they were met."""
        self.unexpected: Callable[[str, BaseException], object] = lambda where, error: None
        """Told of each of them: a simulated world takes it for a broken law."""
        self._stopping: asyncio.Future[None] | None = None
        self._suspects = SuspectedBrokers(world.clock, self.metadata)

    # ---- start

    async def start(self) -> None:
        """Start; returns when a broker serves or a controller takes part. StartRefused says why not."""
        warn_of_settings(self.config)
        try:
            await self._open_pages()
            self.metadata.watch(self.state_change_log.decided)  # before whoever tells brokers of it, and logs that
            await self._join()
            if self.config.is_broker:
                self.data = DataSide(self)
                self.data.claim()
            # On ZooKeeper a controller may speak to us as soon as we listen: its brokers have their logs before.
            if not self.config.on_zookeeper:
                await self._start_plane()
            if not await self._load():  # told to stop meanwhile: nothing else begins
                return
            if self.config.on_zookeeper:
                await self._start_plane()
            if self.lifecycle is not None:
                self.lifecycle.start()
                await self.lifecycle.running.wait()
        except (FormatRefused, LogError, BrokenQuorumState, UnsupportedLevel) as error:
            raise StartRefused(str(error)) from error

    async def _open_pages(self) -> None:
        """Metrics and health, from the beginning: a start that takes long is asked about."""
        where = self.config.pages()
        if where is not None:
            from moldau.broker.metrics.page import Pages

            self.pages = Pages(self)
            try:
                await self.pages.open(*where)
            except OSError as error:
                text = f"cannot listen on {where[0]}:{where[1]} for http.listener: {error.strerror or error}"
                raise StartRefused(text) from error

    async def _join(self) -> None:
        """Learn which cluster this is, and have its control plane ready to start."""
        listeners: list[PlaneEvents] = [self.metadata]
        if self._controller is not None:
            listeners.append(self._controller)
        if self.config.on_zookeeper:
            from moldau.broker.zookeeper.joining import join

            assert self.zookeeper is not None, "a broker in ZooKeeper mode has its host from the beginning"
            plane, self.cluster_id = await join(self.zookeeper, listeners)
            self._plane = self.zookeeper.plane = plane
            return
        meta = await own_meta(self.config, self.world)
        self.cluster_id = meta.cluster_id
        if self.config.migrates:
            from moldau.broker.migration.driver import MigrationDriver
            from moldau.broker.zookeeper.joining import join_to_migrate

            self.migration = MigrationDriver(self, await join_to_migrate(self, self.cluster_id))
            listeners.append(self.migration)
        self._plane = QuorumPlane(self, meta, listeners)

    def _lifecycle(self) -> Lifecycle | ZooKeeperLifecycle:
        if not self.config.on_zookeeper:
            return Lifecycle(self)
        from moldau.broker.zookeeper.host import ZooKeeperHost

        self.zookeeper = ZooKeeperHost(self)
        return self.zookeeper.lifecycle

    async def _start_plane(self) -> None:
        """Bind the listeners and take part in the control plane. In KRaft mode this is before logs are loaded: after a
        power cut of the whole site that may take minutes, and brokers need controllers meanwhile."""
        if not self.config.is_broker:
            for _ in self.metadata.release_in_slices(self.config.node_id):
                raise AssertionError("a controller has nothing to begin")
        for endpoint in self.config.listeners:
            if self.config.is_controller or endpoint.name not in self.config.controller_listener_names:
                await self._bind(self._listener(endpoint), endpoint)
        await self.plane.start()
        if self._controller is not None:
            self._controller.start()
        if self.registering is not None:
            self.registering.start()

    async def _load(self) -> bool:
        """Load the logs, if this is a broker, and hear of the metadata from then on; False when told to stop."""
        if self.data is None:
            return True
        if self._stopping is None:
            await self.data.load()
        if self._stopping is not None:
            await self._stopping
            return False
        self.data.start()
        # After the replicas, which subscribed when they were loaded.
        self.metadata.subscribe(self.state_change_log.carried_out_in_slices)
        return True

    def _listener(self, endpoint: EndPoint) -> SocketListener:
        """A listener that serves the requests of its kind: controllers', or brokers' and clients'. Those for clients
        share one memory, and have limits of connections; replication and the quorum do not wait for clients."""
        name, config = endpoint.name, self.config
        is_controllers, is_for_clients = name in config.controller_listener_names, config.is_for_clients(name)
        kind = CONTROLLER if is_controllers else ZOOKEEPER if config.on_zookeeper else BROKER
        listener = SocketListener(
            self.world,
            name=name,
            kind=kind,
            answers=ANSWERS[kind],
            dispatch=dispatch(kind, self.broker_services, self.controller_services),
            handler_failed=self.handler_failed,
            frame_bytes_max=config["socket.request.max.bytes"],
            memory=self.request_memory if is_for_clients else RequestMemory.of(self.world.tasks, config.__getitem__),
        )
        listener.idle = IdleSweep(self.world, listener.connections, config["connections.max.idle.ms"])
        if is_for_clients:
            listener.limits = self.limits
            listener.files_to_come = lambda: 0 if self.data is None else self.data.log_dirs.files.to_come
        listener.quotas = None if is_controllers else self.quotas
        if is_controllers and self._controller is not None:
            listener.closed_hooks.append(self._controller.failure_detector.connection_closed)
        if kind == ZOOKEEPER:  # its controller has to reach it before it knows anything
            listener.early = EARLY
        return listener

    async def _bind(self, listener: SocketListener, endpoint: EndPoint) -> None:
        """Take the listener's address. A broker in KRaft mode accepts connections from ``_admit`` on: with an image
        that is still empty it would tell clients that their topics are not there."""
        name, host = endpoint.name, endpoint.host or LOOPBACK
        if not endpoint.host:
            log.info("listener %s names no host: it binds %s only (write 0.0.0.0 for all interfaces)", name, host)
        accepts = self.config.on_zookeeper or name in self.config.controller_listener_names
        try:
            self.bound[name] = await self.world.net.listen(host, endpoint.port, listener.accept, opened=accepts)
        except OSError as error:
            where = f"{host}:{endpoint.port} for listener {name}"
            raise StartRefused(f"cannot listen on {where}: {error.strerror or error}") from error
        self.listeners.append(listener)

    def broker_services(self) -> BrokerServices:
        """What handlers of brokers' listeners may use, which open when the logs are loaded."""
        if self._broker is None:
            self._broker = BrokerServices(
                config=self.config,
                world=self.world,
                cluster_id=self.cluster_id,
                metadata=self.metadata,
                plane=self.plane,
                replicas=self.replicas,
                log_dirs=self._data.log_dirs,
                load_coordinator=lambda: self.coordinator,
                encoded_topics=self.encoded_topics,
                recently_gone=self.recently_gone,
                quotas=self.quotas,
                controller_channel=self.controller_channel,
                creating=self.creating,
                suspects_a_death=self._suspects.any_left,
            )
        return self._broker

    def controller_services(self) -> ControllerServices:
        """What handlers of a controller may use; the control plane is there when a first request comes."""
        if self._controller_services is None:
            self._controller_services = ControllerServices(
                config=self.config,
                world=self.world,
                cluster_id=self.cluster_id,
                metadata=self.metadata,
                plane=self.plane,
                controller=self.controller,
                quotas=self.quotas,
                migration=self.migration,
            )
        return self._controller_services

    def _decide_locally(self, message: Message, context: LocalContext) -> Outcome:
        """The answer of the controller in this process."""
        return handler(message.api_key, CONTROLLER)(self.controller_services(), message, context)

    def registered(self, epoch: int) -> None:
        """The controller took us in: act on metadata once it covers our own registration."""

        def caught_up() -> None:
            if self.metadata.offset >= epoch:
                self.world.tasks.spawn(self.open_to_clients(), "open the listeners")
            else:
                self.world.tasks.call_later(2, caught_up)

        caught_up()

    async def open_to_clients(self) -> None:
        """The image covers our own registration: carry it out, in turns, for a controller in this process goes on, and
        so do heartbeats. Then clients and brokers may come, and the controller may let us in."""
        await run_in_slices(self.world.tasks, self.metadata.release_in_slices(self.config.node_id))
        await self._admit()

    async def _admit(self) -> None:
        for listener in self.listeners if self._stopping is None else ():
            listener.admit()
            try:
                await self.bound[listener.name].open()
            except OSError as error:
                raise StartRefused(f"cannot listen for listener {listener.name}: {error.strerror or error}") from error
        assert self.lifecycle is not None
        self.admitted = True
        self.lifecycle.send_heartbeat_now()

    # ---- stop

    def stop_soon(self) -> None:
        """Begin a controlled shutdown (SIGTERM); a second call has it wait no longer for others to take over."""
        if self._stopping is None:
            self._stopping = asyncio.ensure_future(self._stop())
        elif self.lifecycle is not None:
            self.lifecycle.hurry()

    async def _stop(self) -> None:
        code = 0
        try:
            await self.stop()
        except Exception:
            log.exception("the shutdown failed")
            code = 1
        if self.migration is not None and self.migration.behind:
            code = 1
        self._ended(code)

    async def stop(self) -> None:
        """Leave: hand leadership over, flush, write the clean-shutdown marker, hand the quorum over."""
        if self.lifecycle is not None:
            await self.lifecycle.leave()
        for bound in self.bound.values():
            bound.close()
        if self.data is not None:
            # Whoever closes a log vouches for it: nothing may be acknowledged that comes after its flush.
            await self.data.refuse()
            for listener in self.listeners:
                if listener.kind != CONTROLLER:
                    listener.close()
            await self.data.close(self.lifecycle.epoch if self.lifecycle is not None else -1)
        if self.registering is not None:
            self.registering.stop()
        if self.migration is not None:
            await self.migration.stop()
        if self._controller is not None:
            self._controller.stop()
        if self._plane is not None:
            await self._plane.stop()
        for listener in self.listeners:
            listener.close()
        if self.pages is not None:
            self.pages.close()
        self.peers.close()

    def failed(self, task: str, error: BaseException) -> None:
        """A background task raised: the node stops rather than live on half dead (law X7)."""
        if isinstance(error, TOLD):
            log.critical("%s", error)
            print(f"moldau node {self.config.node_id}: {error}", flush=True)
        else:
            log.critical("task %s failed: %r; the node stops", task, error, exc_info=error)
        self._ended(1)

    def survived(self, where: str, error: BaseException) -> None:
        """What keeps no state met an error that it did not expect: it is named and counted, and goes on."""
        self.survivals[where.partition(" ")[0]] += 1  # not by partition: a metric has few labels
        self.unexpected(where, error)
        log.error("%s failed and goes on: %r", where, error, exc_info=error)

    def callback_failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:  # Any: asyncio's
        """The loop's exception handler: a callback raised, or a future whose error nobody asked for."""
        error = context.get("exception")
        if isinstance(error, AssertionError):
            self.failed("a callback", error)
        elif error is not None:
            self.survived("callback", error)
        else:
            loop.default_exception_handler(context)

    def handler_failed(self, header: RequestRead, error: BaseException) -> None:
        """A request handler raised. A broken assertion is our bug: the node stops. Anything else costs the
        connection."""
        log.error("request %d v%d failed: %r", header.api_key, header.api_version, error, exc_info=error)
        if isinstance(error, AssertionError):
            self._ended(1)

    # ---- what subsystems ask of the node

    @property
    def plane(self) -> QuorumPlane | ZooKeeperPlane:
        assert self._plane is not None, "a node that has not joined its cluster has no side of the control plane"
        return self._plane

    @property
    def has_joined(self) -> bool:
        """Whether the node knows which cluster it belongs to, and has its side of the control plane."""
        return self._plane is not None

    @property
    def controller(self) -> ControllerService:
        """The controller of this node, whether active or not."""
        assert self._controller is not None, "only a controller has one"
        return self._controller

    @property
    def is_active_controller(self) -> bool:
        """Whether this node decides for the cluster, as far as it knows."""
        return self._controller is not None and self._controller.active

    @property
    def loaded(self) -> bool:
        """Whether this is a broker whose logs are loaded, so that it has replicas and a coordinator."""
        return self.data is not None and self.data.loaded

    @property
    def _data(self) -> DataSide:
        assert self.data is not None, "only a broker that has begun has a data side"
        return self.data

    @property
    def replicas(self) -> ReplicaManager:
        """This broker's replicas, from the loading of their logs on."""
        return self._data.replicas

    @property
    def coordinator(self) -> Coordinator:
        """This broker's group coordinator, once its logs are ``loaded``."""
        return self._data.coordinator

    def own_endpoints(self) -> list[Endpoint]:
        """Where clients and brokers reach this broker: advertised addresses, with the ports that were really bound."""
        return self._endpoints(of_controller=False)

    def controller_endpoints(self) -> list[Endpoint]:
        """Where other nodes and administrators reach this controller."""
        return self._endpoints(of_controller=True)

    def _endpoints(self, *, of_controller: bool) -> list[Endpoint]:
        shown = []
        for one in self.config.advertised:
            bound = self.bound.get(one.name)
            if bound is not None and (one.name in self.config.controller_listener_names) is of_controller:
                shown.append(Endpoint(one.name, one.host, one.port or bound.port))
        return shown

    def directories(self) -> dict[bytes, str]:
        return self.data.directories() if self.data is not None else {}

    def offline_dirs(self) -> list[bytes]:
        return self.data.offline_ids() if self.data is not None else []

    def previous_broker_epoch(self) -> int:
        """The epoch under which this broker last stopped cleanly, -1 after any other end (KIP-966)."""
        return self.data.log_dirs.previous_broker_epoch if self.data is not None else -1

    def leader_refused(self, broker_id: int) -> None:
        """A broker that we follow refuses connections: news for the controller, if that is us."""
        self._suspects.refused(broker_id)
        if self._controller is not None:
            self._controller.failure_detector.probe(broker_id)

    def leader_broke(self, broker_id: int) -> None:
        """The connection to a broker that we follow has just ended: whether it died is known in a moment."""
        self._suspects.broke(broker_id)

    def quorum_leader_changed(self) -> None:
        """Let the new controller know us at once: until then it cannot notice our death. Who waits for it asks it."""
        self.controller_channel.controller_changed()
        if self.lifecycle is not None:
            self.lifecycle.send_heartbeat_now()

    def healthy(self) -> bool:
        """Whether a heartbeat may say that we live: no disk call is overdue."""
        return self.data is None or self.data.healthy()
