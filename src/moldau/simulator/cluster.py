"""A cluster of simulated processes: real nodes on simulated ports; it starts, stops, kills and pauses them.

Decides nothing about when; faults.py does. One life of a node is an ``Owner``: killing it stops its callbacks.
Read next: faults.py (what happens to the cluster), cluster_observer.py (its state, from outside).
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from moldau.broker.config.node_config import load
from moldau.broker.config.storage_format import format_storage, initial_controllers, read_meta
from moldau.broker.node import Node
from moldau.model import NO_UUID, TopicPartition, uuid_text
from moldau.ports import World
from moldau.simulator.buggify import SeededBuggify
from moldau.simulator.disk import SimDisk
from moldau.simulator.loop import Owner, SimLoop
from moldau.simulator.net import SimNet, Wires
from moldau.simulator.plan import BROKER, CONTROLLER, Plan
from moldau.simulator.ports import Machine, SimClock, SimRandom, SimTasks

PORT, CONTROLLER_PORT = 9092, 9093
LATE_S = 30.0
"""So long may what was not answered still come about."""
CLIENTS = "client"
"""The host on which all clients live."""


class SimulatedHost:
    """One machine: a disk and a clock that stay, a node that comes and goes.

    ``hurt``: this life met a failing disk, so it may end by itself. ``delayed``: it was paused, or its disk hung.
    """

    def __init__(self, id: int, disk: SimDisk, clock: SimClock) -> None:
        self.id, self.disk, self.clock = id, disk, clock
        self.owner: Owner | None = None
        self.node: Node | None = None
        self.hurt = self.delayed = self.stopping = self.serves = False

    @property
    def hostname(self) -> str:
        return f"n{self.id}"


class SimCluster:
    """The nodes of a plan. ``trace`` has in words what happened to them; ``digest`` covers every event.

    Each concern has an rng of its own, so that a change in one does not shift the draws of the others.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.rng = self.stream("nodes")
        self.buggify = SeededBuggify(self.stream("rare")) if plan.buggify else None
        self.loop = SimLoop(self.stream("order"))
        self.trace: list[str] = []
        self.directories: dict[int, bytes] = {}
        """The directory id of each node's metadata log (KIP-853)."""
        self.replaced: set[int] = set()
        """Controllers with a replaced disk that do not have all their data yet: no other is replaced meanwhile."""
        self.settled_s = 0.0
        """From when on no change of the voters that an administrator asked for may still come about."""
        self.unclean: set[TopicPartition] = set()
        """Partitions that had an unclean election that was allowed: there records may be gone."""
        self._hash = hashlib.sha256()
        self.wires = Wires(self.loop, self.stream("net"), self.hash_event, plan.network)
        self.broken: list[str] = []
        self.on_start: Callable[[int, Node], object] = lambda id, node: None
        self.dead_lives: list[
            Any
        ] = []  # dead lives stay referenced: a collected coroutine would still run its `finally`
        self.hosts: dict[int, SimulatedHost] = {}
        for id in plan.hosts:
            rate = 1 + self.rng.uniform(-plan.drift, plan.drift)
            clock = SimClock(self.loop, self.rng.randint(-200, 200), rate)
            self.hosts[id] = SimulatedHost(id, SimDisk(clock.wall_ms), clock)
        self._format()

    def _format(self) -> None:
        chance = SimRandom(self.rng)
        self._cluster_id = uuid_text(chance.uuid())
        members = [(id, f"n{id}", CONTROLLER_PORT, chance.uuid()) for id in self.plan.first_voters]
        for id, host in self.hosts.items():
            config = load(self._properties(host))
            voters = initial_controllers(members, config) if id in self.plan.first_voters else None
            format_storage(config, self._cluster_id, host.disk, chance, voters=voters)
            for folder in ("/", *self.folders):
                host.disk.sync_dir(folder)
            self.directories[id] = read_meta(config.metadata_dir, host.disk).directory_id or NO_UUID

    def stream(self, name: str) -> random.Random:
        """Return an rng for one concern, seeded by the run's seed and the concern's name."""
        return random.Random(f"{self.plan.seed} {name}")

    @property
    def folders(self) -> list[str]:
        return [f"/data{number}" for number in range(self.plan.log_dirs)]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"n{id}:{PORT}" for id in self.plan.brokers)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()[:16]

    @property
    def alive(self) -> list[SimulatedHost]:
        return [host for host in self.hosts.values() if host.owner is not None]

    def hash_event(self, text: str) -> None:
        self._hash.update(f"{self.loop.time():.6f} {text}\n".encode())

    def record_event(self, text: str) -> None:
        self.hash_event(text)
        self.trace.append(f"{self.loop.time():8.3f} s  {text}")

    def violated(self, law: str) -> None:
        """A law does not hold: once is enough for each sentence."""
        if law not in self.broken:
            self.record_event(f"BROKEN {law}")
            self.broken.append(law)

    def world(self, owner: Owner, hostname: str, disk: SimDisk, clock: SimClock) -> World:
        def failed(task: str, error: BaseException) -> None:
            if not owner.alive:
                return
            host = next((one for one in self.hosts.values() if one.owner is owner), None)
            if host is None or not host.hurt:
                self.violated(f"X7: task {task} of {owner.name} raised {error!r}")
            if host is not None and host.node is not None:
                host.node.failed(task, error)

        return World(
            clock=clock,
            random=SimRandom(self.rng),
            disk=disk,
            net=SimNet(self.wires, hostname, owner),
            tasks=SimTasks(self.loop, self.rng, Machine(disk, clock), failed),
            buggify=self.buggify,
            step=1 + self.plan.seed % 4 if self.plan.step is None else self.plan.step,
        )

    # ---- what befalls nodes

    def start(self, id: int) -> None:
        """Begin a new life of a node that is dead."""
        host = self.hosts[id]
        assert host.owner is None
        owner = host.owner = Owner(host.hostname)
        host.hurt, host.delayed, host.stopping, host.serves = bool(host.disk.errors), host.disk.hung, False, False
        world = self.world(owner, host.hostname, host.disk, host.clock)
        host.node = owner.context.run(
            Node, load(self._properties(host)), world, lambda code: self._ended(host, owner, code)
        )
        host.node.unexpected = lambda where, error: (
            None if host.hurt else self.violated(f"X7: {where} of {owner.name} met {error!r}")
        )
        self.dead_lives.append(host.node)
        self.record_event(f"{host.hostname} starts")
        self.on_start(id, host.node)
        task = self.loop.create_task(self._begin(host, host.node, owner), context=owner.context)
        self.dead_lives.append(task)

    async def _begin(self, host: SimulatedHost, node: Node, owner: Owner) -> None:
        try:
            await node.start()
            host.serves = True
            self.record_event(f"{owner.name} serves")
        except Exception as error:
            if not host.hurt:
                self._cannot_start(host, error)
            self._ended(host, owner, 1)

    def _cannot_start(self, host: SimulatedHost, error: Exception) -> None:
        self.violated(f"L5: {host.hostname} cannot start: {error!r}")

    def _ended(self, host: SimulatedHost, owner: Owner, code: int) -> None:
        """The node asks to end. It ends after its own call: it may still be in the middle of something."""
        if not owner.alive:
            return
        if code and not host.hurt:
            self.violated(f"X7: {host.hostname} ended by itself with {code}")

        how = "has stopped in order" if not code else "gives up: its disk failed" if host.hurt else "gives up"

        def gone() -> None:
            if owner.alive:
                self._end(host, how)

        self.loop.call_soon(gone)

    def _end(self, host: SimulatedHost, how: str) -> None:
        assert host.owner is not None
        host.owner.alive = False
        self.dead_lives.extend(asyncio.all_tasks(self.loop))
        self.wires.died(host.owner)
        host.disk.kill()
        host.owner = host.node = None
        host.serves = False
        self.record_event(f"{host.hostname} {how}")

    def kill(self, id: int, *, power: random.Random | None = None) -> None:
        """kill -9; with ``power`` (an rng) all that was not synced goes too, also that of a node dead already."""
        host = self.hosts[id]
        if host.owner is not None:
            self._end(host, "is killed" if power is None else "loses power")
        elif power is not None:
            self.record_event(f"{host.hostname}, dead already, loses power")
        if power is not None:
            host.disk.power_cut(power)

    def replace_disk(self, id: int, folders: Sequence[str]) -> None:
        """What a dead controller has in ``folders`` is gone: empty ones are formatted in their place (KIP-853)."""
        host = self.hosts[id]
        config = load(self._properties(host))
        for folder in folders:
            host.disk.remove_tree(folder)
        format_storage(config, self._cluster_id, host.disk, SimRandom(self.rng), ignore_formatted=True)
        for folder in ("/", *folders):
            host.disk.sync_dir(folder)
        self.directories[id] = read_meta(config.metadata_dir, host.disk).directory_id or NO_UUID
        self.record_event(f"{', '.join(folders)} of {host.hostname} is lost with its disk, and formatted anew")

    @contextmanager
    def changing_voters(self) -> Iterator[None]:
        """A change of the voters is requested inside: without an answer it may be made until ``LATE_S`` later."""
        self.settled_s = math.inf
        late_s = LATE_S
        try:
            yield
            late_s = 0.0
        finally:
            self.settled_s = self.loop.time() + late_s

    def kill_for_good(self, id: int) -> None:
        """Let a node be dead, and stay so."""
        if self.hosts[id].owner is not None:
            self.kill(id)

    def stop(self, id: int) -> None:
        """SIGTERM: a controlled shutdown begins."""
        host = self.hosts[id]
        assert host.owner is not None
        assert host.node is not None
        host.stopping = True
        self.record_event(f"{host.hostname} is asked to stop")
        host.owner.context.run(host.node.stop_soon)

    def pause(self, id: int) -> Owner:
        host = self.hosts[id]
        assert host.owner is not None
        host.owner.paused = host.delayed = True
        self.record_event(f"{host.hostname} is paused")
        return host.owner

    def resume(self, owner: Owner) -> None:
        """Let a process go on, if it still lives."""
        if owner.alive and owner.paused:
            self.loop.resume(owner)
            self.record_event(f"{owner.name} goes on")

    async def until(self, what: Callable[[], bool], limit_s: float) -> bool:
        """Wait in virtual time."""
        deadline = self.loop.time() + limit_s
        while not what():
            if self.loop.time() >= deadline:
                return False
            await asyncio.sleep(0.05)
        return True

    def close(self) -> None:
        """Kill all nodes. Coroutines that never began are closed: else Python warns of them, as of a bug."""
        for host in self.alive:
            self.kill(host.id)
        for task in {one for one in (*self.dead_lives, *asyncio.all_tasks(self.loop)) if isinstance(one, asyncio.Task)}:
            work = task.get_coro()
            if inspect.iscoroutine(work) and inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
                work.close()
        with suppress(Exception):
            self.loop.close()

    def _quorum(self) -> list[str]:
        """How a node finds the quorum."""
        hostnames = [(id, f"n{id}:{CONTROLLER_PORT}") for id in self.plan.controllers]
        if not self.plan.first_voters:
            return ["controller.quorum.voters=" + ",".join(f"{id}@{hostname}" for id, hostname in hostnames)]
        joins = "true" if self.plan.joins else "false"
        servers = ",".join(hostname for _, hostname in hostnames)
        return [f"controller.quorum.bootstrap.servers={servers}", f"controller.quorum.auto.join.enable={joins}"]

    def _properties(self, host: SimulatedHost) -> str:
        roles = self.plan.hosts[host.id]
        listeners = []
        if roles != CONTROLLER:
            listeners.append(f"PLAINTEXT://{host.hostname}:{PORT}")
        if roles != BROKER:
            listeners.append(f"CONTROLLER://{host.hostname}:{CONTROLLER_PORT}")
        return "\n".join(
            (
                f"process.roles={roles}",
                f"node.id={host.id}",
                *self._quorum(),
                f"listeners={','.join(listeners)}",
                "controller.listener.names=CONTROLLER",
                "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
                f"log.dirs={','.join(self.folders)}",
                *self.plan.broker_rack(host.id),
                *(f"{key}={value}" for key, value in self.plan.settings.items()),
            )
        )
