"""A cluster of simulated processes: real nodes on simulated ports. Starts, stops, kills, cuts power, pauses; tells.

Decides nothing about when; that is faults.py. A life of a node is an ``Owner``: killing it stops its callbacks.
Read next: faults.py (what befalls it), looking.py (its state, from outside).
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
from moldau.simulator.disk import SimDisk
from moldau.simulator.loop import Owner, SimLoop
from moldau.simulator.net import SimNet, Wires
from moldau.simulator.plan import BROKER, CONTROLLER, Plan
from moldau.simulator.ports import Machine, SimClock, SimRandom, SimTasks
from moldau.simulator.rare import Chances

PORT, CONTROLLER_PORT = 9092, 9093
LATE_S = 30.0
"""So long may what was not answered still come about."""
CLIENTS = "client"
"""The host on which all clients live."""


class Seat:
    """One machine: a disk and a clock that stay, a node that comes and goes.

    ``hurt``: this life met a failing disk, so it may end by itself. ``delayed``: it was paused, or its disk hung.
    """

    def __init__(self, id: int, disk: SimDisk, clock: SimClock) -> None:
        self.id, self.disk, self.clock = id, disk, clock
        self.owner: Owner | None = None
        self.node: Node | None = None
        self.hurt = self.delayed = self.stopping = self.serves = False

    @property
    def host(self) -> str:
        return f"n{self.id}"


class SimCluster:
    """The nodes of a plan. ``story`` tells in words what befalls them; ``digest`` covers all that happened.

    Each concern has an rng of its own, so that a change in one does not shift the draws of the others.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.rng = self.stream("nodes")
        self.rare = Chances(self.stream("rare")) if plan.rare else None
        self.loop = SimLoop(self.stream("order"))
        self.story: list[str] = []
        self.directories: dict[int, bytes] = {}
        """Of each node's metadata log (KIP-853)."""
        self.replaced: set[int] = set()
        """Controllers whose disk was replaced, and who have not yet all that they had: nobody else goes meanwhile."""
        self.settled_s = 0.0
        """From when on no change of the voters that an administrator asked for may still come about."""
        self.unclean: set[TopicPartition] = set()
        """Partitions that had an unclean election, which somebody allowed: there records may be gone."""
        self._hash = hashlib.sha256()
        self.wires = Wires(self.loop, self.stream("net"), self.trace, plan.weather)
        self.broken: list[str] = []
        self.born: Callable[[int, Node], object] = lambda id, node: None
        self.remains: list[Any] = []  # dead lives stay referenced: a collected coroutine would still run its `finally`
        self.seats: dict[int, Seat] = {}
        for id in plan.seats:
            rate = 1 + self.rng.uniform(-plan.drift, plan.drift)
            clock = SimClock(self.loop, self.rng.randint(-200, 200), rate)
            self.seats[id] = Seat(id, SimDisk(clock.wall_ms), clock)
        self._format()

    def _format(self) -> None:
        chance = SimRandom(self.rng)
        self._cluster_id = uuid_text(chance.uuid())
        members = [(id, f"n{id}", CONTROLLER_PORT, chance.uuid()) for id in self.plan.first_voters]
        for id, seat in self.seats.items():
            config = load(self._properties(seat))
            voters = initial_controllers(members, config) if id in self.plan.first_voters else None
            format_storage(config, self._cluster_id, seat.disk, chance, voters=voters)
            for folder in ("/", *self.folders):
                seat.disk.sync_dir(folder)
            self.directories[id] = read_meta(config.metadata_dir, seat.disk).directory_id or NO_UUID

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
    def alive(self) -> list[Seat]:
        return [seat for seat in self.seats.values() if seat.owner is not None]

    def trace(self, text: str) -> None:
        self._hash.update(f"{self.loop.time():.6f} {text}\n".encode())

    def tell(self, text: str) -> None:
        self.trace(text)
        self.story.append(f"{self.loop.time():8.3f} s  {text}")

    def breaks(self, law: str) -> None:
        """A law does not hold: once is enough for each sentence."""
        if law not in self.broken:
            self.tell(f"BROKEN {law}")
            self.broken.append(law)

    def world(self, owner: Owner, host: str, disk: SimDisk, clock: SimClock) -> World:
        def failed(task: str, error: BaseException) -> None:
            if not owner.alive:
                return
            seat = next((one for one in self.seats.values() if one.owner is owner), None)
            if seat is None or not seat.hurt:
                self.breaks(f"X7: task {task} of {owner.name} raised {error!r}")
            if seat is not None and seat.node is not None:
                seat.node.failed(task, error)

        return World(
            clock=clock,
            random=SimRandom(self.rng),
            disk=disk,
            net=SimNet(self.wires, host, owner),
            tasks=SimTasks(self.loop, self.rng, Machine(disk, clock), failed),
            rare=self.rare,
            step=1 + self.plan.seed % 4 if self.plan.step is None else self.plan.step,
        )

    # ---- what befalls nodes

    def start(self, id: int) -> None:
        """Begin a new life of a node that is dead."""
        seat = self.seats[id]
        assert seat.owner is None
        owner = seat.owner = Owner(seat.host)
        seat.hurt, seat.delayed, seat.stopping, seat.serves = bool(seat.disk.errors), seat.disk.hung, False, False
        world = self.world(owner, seat.host, seat.disk, seat.clock)
        seat.node = owner.context.run(
            Node, load(self._properties(seat)), world, lambda code: self._ended(seat, owner, code)
        )
        seat.node.unexpected = lambda where, error: (
            None if seat.hurt else self.breaks(f"X7: {where} of {owner.name} met {error!r}")
        )
        self.remains.append(seat.node)
        self.tell(f"{seat.host} starts")
        self.born(id, seat.node)
        task = self.loop.create_task(self._begin(seat, seat.node, owner), context=owner.context)
        self.remains.append(task)

    async def _begin(self, seat: Seat, node: Node, owner: Owner) -> None:
        try:
            await node.start()
            seat.serves = True
            self.tell(f"{owner.name} serves")
        except Exception as error:
            if not seat.hurt:
                self._cannot_start(seat, error)
            self._ended(seat, owner, 1)

    def _cannot_start(self, seat: Seat, error: Exception) -> None:
        self.breaks(f"L5: {seat.host} cannot start: {error!r}")

    def _ended(self, seat: Seat, owner: Owner, code: int) -> None:
        """The node asks to go. Not within its own call: it may still be in the middle of something."""
        if not owner.alive:
            return
        if code and not seat.hurt:
            self.breaks(f"X7: {seat.host} ended by itself with {code}")

        how = "has stopped in order" if not code else "gives up: its disk failed" if seat.hurt else "gives up"

        def gone() -> None:
            if owner.alive:
                self._end(seat, how)

        self.loop.call_soon(gone)

    def _end(self, seat: Seat, how: str) -> None:
        assert seat.owner is not None
        seat.owner.alive = False
        self.remains.extend(asyncio.all_tasks(self.loop))
        self.wires.died(seat.owner)
        seat.disk.kill()
        seat.owner = seat.node = None
        seat.serves = False
        self.tell(f"{seat.host} {how}")

    def kill(self, id: int, *, power: random.Random | None = None) -> None:
        """kill -9; with ``power`` (an rng) all that was not synced goes too, also that of a node dead already."""
        seat = self.seats[id]
        if seat.owner is not None:
            self._end(seat, "is killed" if power is None else "loses power")
        elif power is not None:
            self.tell(f"{seat.host}, dead already, loses power")
        if power is not None:
            seat.disk.power_cut(power)

    def replace_disk(self, id: int, folders: Sequence[str]) -> None:
        """What a dead controller has in ``folders`` is gone: empty ones are formatted in their place (KIP-853)."""
        seat = self.seats[id]
        config = load(self._properties(seat))
        for folder in folders:
            seat.disk.remove_tree(folder)
        format_storage(config, self._cluster_id, seat.disk, SimRandom(self.rng), ignore_formatted=True)
        for folder in ("/", *folders):
            seat.disk.sync_dir(folder)
        self.directories[id] = read_meta(config.metadata_dir, seat.disk).directory_id or NO_UUID
        self.tell(f"{', '.join(folders)} of {seat.host} is lost with its disk, and formatted anew")

    @contextmanager
    def changing_voters(self) -> Iterator[None]:
        """Somebody asks for a change of the voters: what was not answered may come about later, and then it is late."""
        self.settled_s = math.inf
        late_s = LATE_S
        try:
            yield
            late_s = 0.0
        finally:
            self.settled_s = self.loop.time() + late_s

    def forsake(self, id: int) -> None:
        """Let a node be dead, and stay so."""
        if self.seats[id].owner is not None:
            self.kill(id)

    def stop(self, id: int) -> None:
        """SIGTERM: a controlled shutdown begins."""
        seat = self.seats[id]
        assert seat.owner is not None
        assert seat.node is not None
        seat.stopping = True
        self.tell(f"{seat.host} is asked to stop")
        seat.owner.context.run(seat.node.stop_soon)

    def pause(self, id: int) -> Owner:
        seat = self.seats[id]
        assert seat.owner is not None
        seat.owner.paused = seat.delayed = True
        self.tell(f"{seat.host} is paused")
        return seat.owner

    def resume(self, owner: Owner) -> None:
        """Let a process go on, if it still lives."""
        if owner.alive and owner.paused:
            self.loop.resume(owner)
            self.tell(f"{owner.name} goes on")

    async def until(self, what: Callable[[], bool], limit_s: float) -> bool:
        """Wait in virtual time."""
        deadline = self.loop.time() + limit_s
        while not what():
            if self.loop.time() >= deadline:
                return False
            await asyncio.sleep(0.05)
        return True

    def close(self) -> None:
        """Nobody lives on. What a death kept from ever beginning is closed: else Python warns of it, as of a bug."""
        for seat in self.alive:
            self.kill(seat.id)
        for task in {one for one in (*self.remains, *asyncio.all_tasks(self.loop)) if isinstance(one, asyncio.Task)}:
            work = task.get_coro()
            if inspect.iscoroutine(work) and inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
                work.close()
        with suppress(Exception):
            self.loop.close()

    def _quorum(self) -> list[str]:
        """How a node finds the quorum."""
        hosts = [(id, f"n{id}:{CONTROLLER_PORT}") for id in self.plan.controllers]
        if not self.plan.first_voters:
            return ["controller.quorum.voters=" + ",".join(f"{id}@{host}" for id, host in hosts)]
        joins = "true" if self.plan.joins else "false"
        servers = ",".join(host for _, host in hosts)
        return [f"controller.quorum.bootstrap.servers={servers}", f"controller.quorum.auto.join.enable={joins}"]

    def _properties(self, seat: Seat) -> str:
        roles = self.plan.seats[seat.id]
        listeners = []
        if roles != CONTROLLER:
            listeners.append(f"PLAINTEXT://{seat.host}:{PORT}")
        if roles != BROKER:
            listeners.append(f"CONTROLLER://{seat.host}:{CONTROLLER_PORT}")
        return "\n".join(
            (
                f"process.roles={roles}",
                f"node.id={seat.id}",
                *self._quorum(),
                f"listeners={','.join(listeners)}",
                "controller.listener.names=CONTROLLER",
                "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
                f"log.dirs={','.join(self.folders)}",
                *(f"{key}={value}" for key, value in self.plan.settings.items()),
            )
        )
