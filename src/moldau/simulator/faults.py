"""What breaks: each trouble begins, lasts a while and ends, and several may overlap. By seed.

The atlas: what no configuration survives is not done (docs/testing-method.md). A power cut takes what was not synced;
at most min.insync.replicas - 1 machines may have lost data and not have caught up since; while one has, every partition
keeps somebody in ISR or ELR who has not crashed since it was in sync: when all have, nobody knows who lost its tail.
With flush.messages=1 any may, but for rot, which takes what was synced (seed 600310). Disks fail for one machine at a
time, and only while nobody has lost data. Read next: decay.py (rot, blackouts, stalled writes), run.py.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable

from moldau.simulator import decay, raising, replacing
from moldau.simulator.cluster import CLIENTS, Seat, SimCluster
from moldau.simulator.laws.quorum import driver_of
from moldau.simulator.looking import Eyes
from moldau.simulator.net import Link

LASTING_S = (0.05, 0.5, 2.0, 5.0, 12.0, 25.0)
STOP_LIMIT_S = 120.0
HOUR_MS = 3_600_000


class Chaos:
    """The hand that breaks things. ``done`` counts troubles by name.

    ``lossy`` are machines that may have lost data, ``crashed`` those that ended without a controlled shutdown: each
    until it is in sync again.
    """

    def __init__(self, cluster: SimCluster, eyes: Eyes) -> None:
        self.cluster, self.eyes, self.plan = cluster, eyes, cluster.plan
        self.rng = cluster.stream("faults")
        self.going = True
        self.done: dict[str, int] = {}
        self.marks: set[str] = set()
        self.lossy: set[int] = set()
        self.crashed: set[int] = set()
        self.rotten: set[int] = set()  # lossy until their operator has been there
        self.chores: list[asyncio.Task[None]] = []  # what operators do after a trouble, while others go on
        self.raised: dict[str, int] = {}  # levels of features that were answered
        self.busy: set[int] = set()  # seats whose process or disk is in trouble: one trouble at a time for each

    async def run(self) -> None:
        """Break things, ``at_once`` hands at a time, until told to stop; returns when every trouble has ended."""
        hands = [asyncio.create_task(self._hand()) for _ in range(self.plan.at_once)]
        for hand in hands:
            await hand
        for chore in self.chores:
            await chore

    async def _hand(self) -> None:
        while True:
            await self._wait(self.plan.pause_s * 2 * self.rng.random())
            if not self.going:
                return
            name = self.rng.choice(self.plan.faults)
            if await self.trouble(name):
                self.done[name] = self.done.get(name, 0) + 1

    async def trouble(self, name: str) -> bool:
        """Have one trouble begin and end; whether there was any."""
        return await FAULTS[name](self)

    def undone(self) -> list[str]:
        """What this hand has asked for, and did not come about at rest."""
        return raising.undone(self)

    async def _wait(self, seconds: float) -> None:
        """Up to ``seconds``; less when all is to end."""
        until_s = self.cluster.loop.time() + seconds
        while self.going and (left_s := until_s - self.cluster.loop.time()) > 0:  # noqa: ASYNC110  # virtual time
            await asyncio.sleep(min(left_s, 0.5))

    async def last(self) -> None:
        """As long as this trouble lasts."""
        await self._wait(self.rng.choice(LASTING_S))

    def victim(self) -> Seat | None:
        """A living seat that is in no trouble; it is, from now on, until ``busy`` forgets it."""
        free = [seat for seat in self.cluster.alive if seat.id not in self.busy]
        if not free:
            return None
        seat = self.rng.choice(free)
        self.busy.add(seat.id)
        return seat

    def caught_up(self) -> None:
        """Forget crashes and losses of machines that are in every ISR again in which they have a place.

        Not of one whose trouble lasts: in the moment that its disk fails it is in sync still (seed 100213).
        """
        for id in sorted((self.lossy | self.crashed) - self.rotten - self.busy):
            if self.cluster.seats[id].serves and all(
                id in partition.isr for _, _, partition in self.eyes.partitions() if id in partition.replicas
            ):
                self.lossy.discard(id)
                self.crashed.discard(id)

    def may_lose(self, id: int) -> bool:
        """The atlas for what takes records that counted: rot; power cuts and broken disks, unless all is synced."""
        self.caught_up()
        return not self.lossy - {id} and self._somebody_whole({id})

    def may_crash(self, *ids: int) -> bool:
        """The atlas for ends that lose nothing: they too hide who has lost something."""
        self.caught_up()
        return not self.lossy or self._somebody_whole(set(ids))

    def _somebody_whole(self, but: set[int]) -> bool:
        """Whether every partition has somebody who may lead and has not crashed."""
        # Who is asked to stop leaves its ISRs (seed 72).
        gone = self.crashed | but | {seat.id for seat in self.cluster.seats.values() if seat.stopping}
        asked = [one.machine.proposal for of in self.eyes.replicas().values() for one in of.values()]
        # What a leader has asked for may become the ISR after it is gone.
        return all({*p.isr, *p.elr} - gone or not p.isr + p.elr for _, _, p in self.eyes.partitions()) and all(
            set(one.isr) - gone for one in asked if one is not None
        )

    def has_majority_without(self, id: int) -> bool:
        """The atlas for a node that stays dead: every voter set that may count yet has a majority of the others."""
        if not self.plan.first_voters:
            return True  # three controllers, of whom any one may go
        drivers = [driver for _, node in self.eyes.nodes() if (driver := driver_of(node)) is not None]
        logs = [driver.quorum.voter_log for driver in drivers]
        sets = [set(found.ids) for log in logs for found in (log.current, log.before)]
        return all(2 * len(ids - {id}) > len(ids) for ids in sets if ids)

    def crashable(self, *, loses: bool) -> Seat | None:
        """A victim that the atlas lets crash; it is noted as crashed."""
        seat = self.victim()
        if seat is None:
            return None
        if not (self.may_lose(seat.id) if loses else self.may_crash(seat.id)):
            self.busy.discard(seat.id)
            return None
        self.crashed.add(seat.id)
        if loses:
            self.lossy.add(seat.id)
        return seat

    # ---- processes

    async def _kill(self) -> bool:
        seat = self.crashable(loses=False)
        if seat is None:
            return False
        self.cluster.kill(seat.id)
        await self.last()
        self.come_back(seat)
        return True

    async def _power(self) -> bool:
        seat = self.crashable(loses=not self.plan.flush)
        if seat is None:
            return False
        self.cluster.kill(seat.id, power=self.rng)
        await self.last()
        self.come_back(seat)
        return True

    def come_back(self, seat: Seat) -> None:
        """The end of a trouble: the machine runs again, and may have another."""
        if seat.owner is None:
            self.cluster.start(seat.id)
        self.busy.discard(seat.id)

    async def _pause(self) -> bool:
        seat = self.victim()
        if seat is None:
            return False
        owner = self.cluster.pause(seat.id)
        await self.last()
        self.cluster.resume(owner)
        self.busy.discard(seat.id)
        return True

    async def _stop(self) -> bool:
        """A controlled shutdown, and a start. L12: it ends, unless something held the process up."""
        seat = self.victim()
        if seat is None:
            return False
        if not seat.serves or not self.may_crash(seat.id):
            self.busy.discard(seat.id)
            return False
        self.cluster.stop(seat.id)
        if not await self.cluster.until(lambda: seat.owner is None, STOP_LIMIT_S):
            if not seat.delayed:
                self.cluster.breaks(f"L12: the shutdown of {seat.host} has not ended after {STOP_LIMIT_S} s")
            await self.cluster.until(lambda: seat.owner is None or self.may_crash(seat.id), STOP_LIMIT_S)
            if seat.owner is not None:
                self.crashed.add(seat.id)
                self.cluster.kill(seat.id)
        await self.last()
        self.come_back(seat)
        return True

    # ---- the net

    async def _sever(self, links: set[Link], text: str) -> bool:
        self.cluster.tell(text)
        mend = self.cluster.wires.sever(sorted(links))
        await self.last()
        mend()
        self.cluster.tell(f"over: {text}")
        return True

    def _hosts(self) -> list[str]:
        return [seat.host for seat in self.cluster.seats.values()]

    async def _isolate(self) -> bool:
        host = self.rng.choice(self._hosts())
        others = [one for one in (*self._hosts(), CLIENTS) if one != host]
        links = {(host, one) for one in others} | {(one, host) for one in others}
        return await self._sever(links, f"{host} is cut off")

    async def _one_way(self) -> bool:
        host = self.rng.choice(self._hosts())
        others = [one for one in (*self._hosts(), CLIENTS) if one != host]
        if self.rng.random() < 0.5:
            return await self._sever({(host, one) for one in others}, f"nobody hears {host}")
        return await self._sever({(one, host) for one in others}, f"{host} hears nobody")

    async def _halves(self) -> bool:
        """Two sides that do not reach each other, or a bridge: one node that reaches both."""
        hosts = [*self._hosts(), CLIENTS]
        self.rng.shuffle(hosts)
        at = self.rng.randint(1, len(hosts) - 1)
        left, right = hosts[:at], hosts[at:]
        if self.rng.random() < 0.3 and len(left) > 1:
            left = left[1:]
        links = {(a, b) for a in left for b in right} | {(b, a) for a in left for b in right}
        return await self._sever(links, f"{', '.join(left)} and {', '.join(right)} do not reach each other")

    async def _clog(self) -> bool:
        """A few directed links carry nothing for a while, each for its own while."""
        hosts = [*self._hosts(), CLIENTS]
        links = {(a, b) for a in hosts for b in hosts if a != b and self.rng.random() < 0.2}
        self.cluster.tell(f"clogged: {', '.join(f'{a} to {b}' for a, b in sorted(links)) or 'nothing'}")
        mends = [self.cluster.wires.sever([link]) for link in sorted(links)]
        self.rng.shuffle(mends)
        for mend in mends:
            await self._wait(self.rng.choice((0.1, 0.5, 3.0)))
            mend()
        return bool(links)

    async def _break(self) -> bool:
        share = self.rng.choice((0.1, 0.5, 1.0))
        self.cluster.tell(f"connections break: {share:.0%}")
        for end in list(self.cluster.wires.ends):
            if self.rng.random() < share:
                end.break_now()
        return True

    # ---- clocks and disks

    async def _clock(self) -> bool:
        seat = self.rng.choice(list(self.cluster.seats.values()))
        jump_ms = self.rng.choice((-HOUR_MS, -5_000, 5_000, HOUR_MS))
        seat.clock.skew_ms += jump_ms
        self.cluster.tell(f"the wall clock of {seat.host} jumps by {jump_ms // 1000} s")
        return True

    async def _slow_disk(self) -> bool:
        seat = self.rng.choice(list(self.cluster.seats.values()))
        seat.disk.slowness = self.rng.choice((10.0, 100.0, 1_000.0))
        seat.delayed = True
        self.cluster.tell(f"the disk of {seat.host} is {seat.disk.slowness:.0f} times slower")
        await self.last()
        seat.disk.slowness = 1.0
        self.cluster.tell(f"the disk of {seat.host} is fast again")
        return True

    async def _hung_disk(self) -> bool:
        seat = self.rng.choice(list(self.cluster.seats.values()))
        seat.disk.hung = seat.delayed = True
        self.cluster.tell(f"the disk of {seat.host} hangs")
        await self.last()
        seat.disk.hung = False
        self.cluster.tell(f"the disk of {seat.host} goes on")
        return True

    async def _disk_full(self) -> bool:
        return await self._disk(errno.ENOSPC, "is full", "has space again")

    async def _disk_error(self) -> bool:
        return await self._disk(errno.EIO, "fails", "is replaced by one with the same data")

    async def _disk(self, number: int, begins: str, ends: str) -> bool:
        seat = self.crashable(loses=not self.plan.flush)
        if seat is None:
            return False
        under = self.rng.choice(["/", *self.cluster.folders])
        seat.hurt = True
        seat.disk.errors[under] = number
        self.cluster.tell(f"the disk of {seat.host} {begins} ({under})")
        await self.last()
        del seat.disk.errors[under]
        self.cluster.tell(f"the disk of {seat.host} {ends}")
        if seat.owner is not None:  # a directory that went offline stays so until a restart
            self.cluster.kill(seat.id)
        self.come_back(seat)
        return True

    async def _moves(self) -> bool:
        """Nothing breaks: the administrator alone makes things move."""
        await self._wait(1.0)
        return True


FAULTS: dict[str, Callable[[Chaos], Awaitable[bool]]] = {
    "kill": Chaos._kill,
    "pause": Chaos._pause,
    "isolate": Chaos._isolate,
    "one-way": Chaos._one_way,
    "power": Chaos._power,
    "break": Chaos._break,
    "halves": Chaos._halves,
    "clog": Chaos._clog,
    "stop": Chaos._stop,
    "clock": Chaos._clock,
    "slow-disk": Chaos._slow_disk,
    "hung-disk": Chaos._hung_disk,
    "disk-full": Chaos._disk_full,
    "disk-error": Chaos._disk_error,
    "moves": Chaos._moves,
    "rot": decay.rot,
    "blackout": decay.blackout,
    "stalled-writes": decay.stalled_writes,
    "compaction": decay.amid_compaction,
    "damaged-segment": decay.damaged_segment,
    "lost-segment": decay.lost_segment,
    "replaced-disk": replacing.replaced_disk,
    "upgrade": raising.upgrade,
}
