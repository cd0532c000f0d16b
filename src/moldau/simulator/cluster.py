"""A cluster of simulated processes: real nodes on simulated ports. Starts, kills, cuts power, pauses, heals; looks.

Decides nothing about when; that is run.py. A life of a node is an ``Owner``: killing it stops its callbacks for good.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from moldau.broker.config import load
from moldau.broker.formatting import format_storage
from moldau.broker.node import Node, StartRefused
from moldau.ports import World
from moldau.simulator.disk import SimDisk
from moldau.simulator.loop import Owner, SimLoop
from moldau.simulator.net import SimNet, Wires
from moldau.simulator.ports import SimClock, SimRandom, SimTasks
from moldau.terms import uuid_text

PORT, CONTROLLER_PORT = 9092, 9093


class Seat:
    """One machine: a disk and a clock that stay, a node that comes and goes."""

    def __init__(self, id: int, disk: SimDisk, clock: SimClock) -> None:
        self.id, self.disk, self.clock = id, disk, clock
        self.owner: Owner | None = None
        self.node: Node | None = None

    @property
    def host(self) -> str:
        return f"n{self.id}"


class SimCluster:
    """``count`` combined nodes. ``story`` is told in words what befalls them; ``digest`` covers all that happened."""

    def __init__(self, seed: int, count: int = 3) -> None:
        self.dice = random.Random(seed)
        self.loop = SimLoop(self.dice)
        self.story: list[str] = []
        self._hash = hashlib.sha256()
        self.wires = Wires(self.loop, self.dice, self.trace)
        self.broken: list[str] = []
        self.remains: list[Any] = []  # dead lives stay referenced: a collected coroutine would still run its `finally`
        self.seats: dict[int, Seat] = {}
        for id in range(1, count + 1):
            clock = SimClock(self.loop, self.dice.randint(-200, 200))
            self.seats[id] = Seat(id, SimDisk(clock.wall_ms), clock)
        cluster_id = uuid_text(SimRandom(self.dice).uuid())
        for seat in self.seats.values():
            format_storage(load(self._properties(seat)), cluster_id, seat.disk, SimRandom(self.dice))
            for folder in ("/", "/data"):
                seat.disk.sync_dir(folder)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{seat.host}:{PORT}" for seat in self.seats.values())

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()[:16]

    def trace(self, text: str) -> None:
        self._hash.update(f"{self.loop.time():.6f} {text}\n".encode())

    def tell(self, text: str) -> None:
        self.trace(text)
        self.story.append(f"{self.loop.time():8.3f} s  {text}")

    def world(self, owner: Owner, host: str, disk: SimDisk, clock: SimClock) -> World:
        def failed(task: str, error: BaseException) -> None:
            if owner.alive:
                self.broken.append(f"X7: task {task} of {owner.name} raised {error!r}")

        return World(
            clock=clock,
            random=SimRandom(self.dice),
            disk=disk,
            net=SimNet(self.wires, host, owner),
            tasks=SimTasks(self.loop, self.dice, failed),
        )

    # ---- what befalls nodes

    def start(self, id: int) -> None:
        """Begin a new life of a node that is dead."""
        seat = self.seats[id]
        assert seat.owner is None
        owner = seat.owner = Owner(seat.host)
        world = self.world(owner, seat.host, seat.disk, seat.clock)

        def ended(code: int) -> None:
            if owner.alive:
                self.broken.append(f"X7: {seat.host} ended by itself with {code}")

        seat.node = owner.context.run(Node, load(self._properties(seat)), world, ended)
        self.remains.append(seat.node)
        self.tell(f"{seat.host} starts")
        task = self.loop.create_task(self._begin(seat.node, owner), context=owner.context)
        self.remains.append(task)

    async def _begin(self, node: Node, owner: Owner) -> None:
        try:
            await node.start()
            self.tell(f"{owner.name} serves")
        except (StartRefused, OSError, AssertionError) as error:
            self.broken.append(f"{owner.name} cannot start: {error!r}")

    def kill(self, id: int, *, power: bool = False) -> None:
        """kill -9, or with ``power`` everything that was not synced goes too."""
        seat = self.seats[id]
        assert seat.owner is not None
        seat.owner.alive = False
        for task in asyncio.all_tasks(self.loop):
            self.remains.append(task)
        self.wires.died(seat.owner)
        if power:
            seat.disk.power_cut(self.dice)
        else:
            seat.disk.kill()
        seat.owner = seat.node = None
        self.tell(f"{seat.host} {'loses power' if power else 'is killed'}")

    def pause(self, id: int) -> None:
        owner = self.seats[id].owner
        assert owner is not None
        owner.paused = True
        self.tell(f"{owner.name} is paused")

    def resume(self, id: int) -> None:
        owner = self.seats[id].owner
        assert owner is not None
        self.loop.resume(owner)
        self.tell(f"{owner.name} goes on")

    def isolate(self, id: int, *, ways: int = 2) -> None:
        """Cut a node from all others: both ways, or only what it sends."""
        host = self.seats[id].host
        for other in (*(seat.host for seat in self.seats.values()), "client"):
            if other != host:
                self.wires.cut.add((host, other))
                if ways == 2:
                    self.wires.cut.add((other, host))
        self.tell(f"{host} is cut off{'' if ways == 2 else ' one way: nobody hears it'}")

    def heal(self) -> None:
        self.wires.cut.clear()
        self.tell("the net is whole")

    # ---- looking

    def replicas(self, topic: str) -> dict[int, dict[int, Any]]:
        """partition -> node -> its replica, of the nodes that live."""
        found: dict[int, dict[int, Any]] = {}
        for id, seat in self.seats.items():
            if seat.node is not None and seat.node.replicas is not None:
                for partition, replica in seat.node.replicas.by_partition.items():
                    if partition.topic == topic:
                        found.setdefault(partition.partition, {})[id] = replica
        return found

    def all_unfenced(self) -> bool:
        """Whether every node sees every broker unfenced."""
        return all(
            seat.node is not None
            and len(seat.node.image.brokers) == len(self.seats)
            and not any(broker.fenced for broker in seat.node.image.brokers.values())
            for seat in self.seats.values()
        )

    def in_sync_isr(self, topic: str) -> bool:
        """Whether every partition has one leader, and all nodes in its ISR; the load may go on."""
        return self.in_sync(topic, moving=True)

    def in_sync(self, topic: str, *, moving: bool = False) -> bool:
        """The same, and all watermarks at the end unless the log is ``moving``."""
        found = self.replicas(topic)
        for of in found.values():
            leaders = [r for r in of.values() if r.machine.role.name == "LEADER"]
            if len(leaders) != 1 or len(of) != len(self.seats) or len(leaders[0].machine.isr) != len(self.seats):
                return False
            if not moving and len({(r.machine.high_watermark, r.log.log_end_offset) for r in of.values()}) != 1:
                return False
        return bool(found)

    async def until(self, what: Callable[[], bool], limit_s: float) -> bool:
        """Wait in virtual time."""
        deadline = self.loop.time() + limit_s
        while not what():
            if self.loop.time() >= deadline:
                return False
            await asyncio.sleep(0.05)
        return True

    def close(self) -> None:
        """Nobody lives on."""
        for seat in self.seats.values():
            if seat.owner is not None:
                self.kill(seat.id)
        with suppress(Exception):
            self.loop.close()

    def _properties(self, seat: Seat) -> str:
        voters = ",".join(f"{one.id}@{one.host}:{CONTROLLER_PORT}" for one in self.seats.values())
        host = seat.host
        return "\n".join(
            (
                "process.roles=broker,controller",
                f"node.id={seat.id}",
                f"controller.quorum.voters={voters}",
                f"listeners=PLAINTEXT://{host}:{PORT},CONTROLLER://{host}:{CONTROLLER_PORT}",
                "controller.listener.names=CONTROLLER",
                "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
                "log.dirs=/data",
            )
        )
