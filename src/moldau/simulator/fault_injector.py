"""``FaultInjector`` begins faults, lets each last a while and ends it, several at once if the plan says so. By seed.

The fault model: what no configuration survives is not done (docs/testing-method.md). A power cut takes what was not
synced; at most min.insync.replicas - 1 hosts may have lost data and not have caught up; while one has, every partition
keeps a replica in ISR or ELR that has not crashed since it was in sync: if all have, no node knows who lost its tail.
With flush.messages=1 any host may, but for corruption, which takes what was synced (seed 600310). Disks fail on one
host at a time, and only while no host has lost data. Read next: faults.py, run.py.
"""

from __future__ import annotations

import asyncio
import errno
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable

from moldau.simulator.cluster import CLIENTS, SimCluster, SimulatedHost
from moldau.simulator.cluster_observer import ClusterObserver
from moldau.simulator.laws.quorum import driver_of
from moldau.simulator.net import Link

LASTING_S = (0.05, 0.5, 2.0, 5.0, 12.0, 25.0)
STOP_LIMIT_S = 120.0
HOUR_MS = 3_600_000


class FaultInjector(ABC):
    """Injects the faults of a plan. ``done`` counts them by name.

    ``lossy`` are hosts that may have lost data, ``crashed`` those that ended without a controlled shutdown: each
    until it is in sync again.
    """

    def __init__(self, cluster: SimCluster, observer: ClusterObserver) -> None:
        self.cluster, self.observer, self.plan = cluster, observer, cluster.plan
        self.rng = cluster.stream("faults")
        self.going = True
        self.done: dict[str, int] = {}
        self.coverage: set[str] = set()
        self.lossy: set[int] = set()
        self.crashed: set[int] = set()
        self.corrupted: set[int] = set()  # lossy until their operator has removed the replica
        self.chores: list[asyncio.Task[None]] = []  # what operators do after a fault, while others go on
        self.raised: dict[str, int] = {}  # levels of features that were answered
        self.busy: set[int] = set()  # hosts whose process or disk has a fault: one at a time for each

    async def run(self) -> None:
        """Inject faults, up to ``at_once`` at a time, until ``going`` is False; return when every fault has ended."""
        workers = [asyncio.create_task(self._inject_faults()) for _ in range(self.plan.at_once)]
        for worker in workers:
            await worker
        for chore in self.chores:
            await chore

    async def _inject_faults(self) -> None:
        while True:
            await self._wait(self.plan.pause_s * 2 * self.rng.random())
            if not self.going:
                return
            name = self.rng.choice(self.plan.faults)
            if await self.inject(name):
                self.done[name] = self.done.get(name, 0) + 1

    @abstractmethod
    async def inject(self, name: str) -> bool:
        """Begin one fault, let it last and end it; return whether there was any."""

    @abstractmethod
    def undone(self) -> list[str]:
        """Return what was asked for during faults, and does not hold at quiescence."""

    async def _wait(self, seconds: float) -> None:
        """Up to ``seconds``; less when all is to end."""
        until_s = self.cluster.loop.time() + seconds
        while self.going and (left_s := until_s - self.cluster.loop.time()) > 0:  # noqa: ASYNC110  # virtual time
            await asyncio.sleep(min(left_s, 0.5))

    async def last(self) -> None:
        """Wait as long as this fault lasts."""
        await self._wait(self.rng.choice(LASTING_S))

    def victim(self) -> SimulatedHost | None:
        """Return a living host without a fault; it is in ``busy`` from now on."""
        free = [host for host in self.cluster.alive if host.id not in self.busy]
        if not free:
            return None
        host = self.rng.choice(free)
        self.busy.add(host.id)
        return host

    def caught_up(self) -> None:
        """Forget crashes and losses of hosts that are in every ISR again in which they have a place.

        Not of one whose fault lasts: in the moment that its disk fails it is in sync still (seed 100213).
        """
        for id in sorted((self.lossy | self.crashed) - self.corrupted - self.busy):
            if self.cluster.hosts[id].serves and all(
                id in partition.isr for _, _, partition in self.observer.partitions() if id in partition.replicas
            ):
                self.lossy.discard(id)
                self.crashed.discard(id)

    def may_lose(self, id: int) -> bool:
        """Whether a host may lose synced records (corruption), or unsynced ones (power cuts, broken disks)."""
        self.caught_up()
        return not self.lossy - {id} and self._somebody_whole({id})

    def may_crash(self, *ids: int) -> bool:
        """Whether hosts may crash without losing data: that too hides which replica has lost something."""
        self.caught_up()
        return not self.lossy or self._somebody_whole(set(ids))

    def _somebody_whole(self, but: set[int]) -> bool:
        """Whether every partition has a replica that may lead and has not crashed."""
        # A broker that is asked to stop leaves its ISRs (seed 72).
        gone = self.crashed | but | {host.id for host in self.cluster.hosts.values() if host.stopping}
        asked = [one.machine.proposal for of in self.observer.replicas().values() for one in of.values()]
        # What a leader has asked for may become the ISR after it is gone.
        return all({*p.isr, *p.elr} - gone or not p.isr + p.elr for _, _, p in self.observer.partitions()) and all(
            set(one.isr) - gone for one in asked if one is not None
        )

    def has_majority_without(self, id: int) -> bool:
        """Whether a node may stay dead: every voter set that may count yet has a majority of the others."""
        if not self.plan.first_voters:
            return True  # three controllers, of whom any one may go
        drivers = [driver for _, node in self.observer.nodes() if (driver := driver_of(node)) is not None]
        logs = [driver.quorum.voter_log for driver in drivers]
        sets = [set(found.ids) for log in logs for found in (log.current, log.before)]
        return all(2 * len(ids - {id}) > len(ids) for ids in sets if ids)

    def crashable(self, *, loses: bool) -> SimulatedHost | None:
        """Return a host that the fault model lets crash; it is noted as crashed."""
        host = self.victim()
        if host is None:
            return None
        if not (self.may_lose(host.id) if loses else self.may_crash(host.id)):
            self.busy.discard(host.id)
            return None
        self.crashed.add(host.id)
        if loses:
            self.lossy.add(host.id)
        return host

    # ---- processes

    async def _kill(self) -> bool:
        host = self.crashable(loses=False)
        if host is None:
            return False
        self.cluster.kill(host.id)
        await self.last()
        self.come_back(host)
        return True

    async def _power(self) -> bool:
        host = self.crashable(loses=not self.plan.flush)
        if host is None:
            return False
        self.cluster.kill(host.id, power=self.rng)
        await self.last()
        self.come_back(host)
        return True

    def come_back(self, host: SimulatedHost) -> None:
        """End a fault: the host runs again, and may have another one."""
        if host.owner is None:
            self.cluster.start(host.id)
        self.busy.discard(host.id)

    async def _pause(self) -> bool:
        host = self.victim()
        if host is None:
            return False
        owner = self.cluster.pause(host.id)
        await self.last()
        self.cluster.resume(owner)
        self.busy.discard(host.id)
        return True

    async def _stop(self) -> bool:
        """A controlled shutdown, and a start. L12: it ends, unless something held the process up."""
        host = self.victim()
        if host is None:
            return False
        if not host.serves or not self.may_crash(host.id):
            self.busy.discard(host.id)
            return False
        self.cluster.stop(host.id)
        if not await self.cluster.until(lambda: host.owner is None, STOP_LIMIT_S):
            if not host.delayed:
                self.cluster.violated(f"L12: the shutdown of {host.hostname} has not ended after {STOP_LIMIT_S} s")
            await self.cluster.until(lambda: host.owner is None or self.may_crash(host.id), STOP_LIMIT_S)
            if host.owner is not None:
                self.crashed.add(host.id)
                self.cluster.kill(host.id)
        await self.last()
        self.come_back(host)
        return True

    # ---- the net

    async def _sever(self, links: set[Link], text: str) -> bool:
        self.cluster.record_event(text)
        mend = self.cluster.wires.sever(sorted(links))
        await self.last()
        mend()
        self.cluster.record_event(f"over: {text}")
        return True

    def _hostnames(self) -> list[str]:
        return [host.hostname for host in self.cluster.hosts.values()]

    async def _isolate(self) -> bool:
        hostname = self.rng.choice(self._hostnames())
        others = [one for one in (*self._hostnames(), CLIENTS) if one != hostname]
        links = {(hostname, one) for one in others} | {(one, hostname) for one in others}
        return await self._sever(links, f"{hostname} is cut off")

    async def _one_way(self) -> bool:
        hostname = self.rng.choice(self._hostnames())
        others = [one for one in (*self._hostnames(), CLIENTS) if one != hostname]
        if self.rng.random() < 0.5:
            return await self._sever({(hostname, one) for one in others}, f"nobody hears {hostname}")
        return await self._sever({(one, hostname) for one in others}, f"{hostname} hears nobody")

    async def _halves(self) -> bool:
        """Two sides that do not reach each other, or a bridge: one node that reaches both."""
        hostnames = [*self._hostnames(), CLIENTS]
        self.rng.shuffle(hostnames)
        at = self.rng.randint(1, len(hostnames) - 1)
        left, right = hostnames[:at], hostnames[at:]
        if self.rng.random() < 0.3 and len(left) > 1:
            left = left[1:]
        links = {(a, b) for a in left for b in right} | {(b, a) for a in left for b in right}
        return await self._sever(links, f"{', '.join(left)} and {', '.join(right)} do not reach each other")

    async def _clog(self) -> bool:
        """A few directed links carry nothing for a while, each for its own while."""
        hostnames = [*self._hostnames(), CLIENTS]
        links = {(a, b) for a in hostnames for b in hostnames if a != b and self.rng.random() < 0.2}
        self.cluster.record_event(f"clogged: {', '.join(f'{a} to {b}' for a, b in sorted(links)) or 'nothing'}")
        mends = [self.cluster.wires.sever([link]) for link in sorted(links)]
        self.rng.shuffle(mends)
        for mend in mends:
            await self._wait(self.rng.choice((0.1, 0.5, 3.0)))
            mend()
        return bool(links)

    async def _break(self) -> bool:
        share = self.rng.choice((0.1, 0.5, 1.0))
        self.cluster.record_event(f"connections break: {share:.0%}")
        for end in list(self.cluster.wires.ends):
            if self.rng.random() < share:
                end.break_now()
        return True

    # ---- clocks and disks

    async def _clock(self) -> bool:
        host = self.rng.choice(list(self.cluster.hosts.values()))
        jump_ms = self.rng.choice((-HOUR_MS, -5_000, 5_000, HOUR_MS))
        host.clock.jump(jump_ms)
        self.cluster.record_event(f"the wall clock of {host.hostname} jumps by {jump_ms // 1000} s")
        return True

    async def _slow_disk(self) -> bool:
        host = self.rng.choice(list(self.cluster.hosts.values()))
        host.disk.slowness = self.rng.choice((10.0, 100.0, 1_000.0))
        host.delayed = True
        self.cluster.record_event(f"the disk of {host.hostname} is {host.disk.slowness:.0f} times slower")
        await self.last()
        host.disk.slowness = 1.0
        self.cluster.record_event(f"the disk of {host.hostname} is fast again")
        return True

    async def _hung_disk(self) -> bool:
        host = self.rng.choice(list(self.cluster.hosts.values()))
        host.disk.hung = host.delayed = True
        self.cluster.record_event(f"the disk of {host.hostname} hangs")
        await self.last()
        host.disk.hung = False
        self.cluster.record_event(f"the disk of {host.hostname} goes on")
        return True

    async def _disk_full(self) -> bool:
        return await self._disk(errno.ENOSPC, "is full", "has space again")

    async def _disk_error(self) -> bool:
        return await self._disk(errno.EIO, "fails", "is replaced by one with the same data")

    async def _disk(self, number: int, begins: str, ends: str) -> bool:
        host = self.crashable(loses=not self.plan.flush)
        if host is None:
            return False
        under = self.rng.choice(["/", *self.cluster.folders])
        host.hurt = True
        host.disk.errors[under] = number
        self.cluster.record_event(f"the disk of {host.hostname} {begins} ({under})")
        await self.last()
        del host.disk.errors[under]
        self.cluster.record_event(f"the disk of {host.hostname} {ends}")
        if host.owner is not None:  # a directory that went offline stays so until a restart
            self.cluster.kill(host.id)
        self.come_back(host)
        return True

    async def _moves(self) -> bool:
        """No fault: the administrator alone moves partitions."""
        await self._wait(1.0)
        return True


OWN_FAULTS: dict[str, Callable[[FaultInjector], Awaitable[bool]]] = {
    "kill": FaultInjector._kill,
    "pause": FaultInjector._pause,
    "isolate": FaultInjector._isolate,
    "one-way": FaultInjector._one_way,
    "power": FaultInjector._power,
    "break": FaultInjector._break,
    "halves": FaultInjector._halves,
    "clog": FaultInjector._clog,
    "stop": FaultInjector._stop,
    "clock": FaultInjector._clock,
    "slow-disk": FaultInjector._slow_disk,
    "hung-disk": FaultInjector._hung_disk,
    "disk-full": FaultInjector._disk_full,
    "disk-error": FaultInjector._disk_error,
    "moves": FaultInjector._moves,
}
"""The faults of processes, links and clocks, and of disks that fail."""
