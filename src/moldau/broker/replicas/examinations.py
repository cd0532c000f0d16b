"""Batches of clients that take long to look into are examined in parts, so that nobody else waits for them.

Decides which batches are examined at once, and keeps the order of a client's batches: whoever comes behind one that
is still examined waits for it. One batch of each client is examined at a time, of ``CLIENTS_AT_ONCE`` in turns, and at
most a millisecond in one turn of the loop; unpacking and packing happen on a thread. A batch whose client is gone, or
was told that its time is up, is refused when its turn comes. Batches for a new partition wait here until its folder is
made, or for ``FOLDER_WAIT_MS``. Does not decide what is taken: see ``storage/log_validator.py``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import TypeVar

from moldau.broker.loop import Turns, yield_to_loop
from moldau.broker.replicas.deps import HeldBytes
from moldau.broker.replicas.replica import Replica
from moldau.model import Code
from moldau.model.named import NamedTuple
from moldau.ports import Handle, Tasks, World
from moldau.ports.pools import COMPUTING
from moldau.storage.log_validator import Examination, InvalidAppend, ValidatedBatches
from moldau.storage.slow import Pauses
from moldau.wire.batch import BatchHeader
from moldau.wire.codec import Buffer

PARTS_AT_ONCE = 4
"""So many parts of a batch are examined at once; one that has more waits for its turn."""
SPENT_MAX_MS = 4
"""Once examining has taken that long in one turn of the loop, what follows waits as well."""
LARGE_BYTES = 1 << 15
"""To look at a smaller batch takes some tenths of a millisecond at most."""
WAITING_BYTES_MAX = 64 << 20
"""When batches of so many bytes wait already, others are sent back, to be sent again later, but for those of clients of
whom little waits: these may make it twice as many. Large ones are not read before: what waits here counts as bytes of
requests."""
LITTLE_BYTES = 4 << 20
WAITING_COST = 2_560
"""Bytes beside its own that each batch takes which waits: its request, and its place in the answer."""
CLIENTS_AT_ONCE = 4
"""So many clients' batches are examined in turns. Each may have a piece of some megabytes that was just unpacked."""
FOLDER_WAIT_MS = 1_000
"""So long the first batches of a new partition wait for its folder. Where that takes longer they are refused."""

Outcome = ValidatedBatches | InvalidAppend
T = TypeVar("T")


class _Waiting(NamedTuple):
    replica: Replica
    data: bytearray
    then: Callable[[Outcome], object]
    client: Hashable
    is_wanted: Callable[[], bool]

    @property
    def size(self) -> int:
        """What it takes while it waits."""
        return len(self.data) + WAITING_COST


class _Client:
    """The batches of one client that wait, in order; the first may be under examination."""

    __slots__ = ("size", "task", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[_Waiting] = deque()
        self.size = 0
        """The bytes of those batches, and of others that wait for a folder."""
        self.task: Handle | None = None


class Examinations:
    """All examinations of a broker."""

    def __init__(self, world: World, requests: HeldBytes) -> None:
        self._world, self._requests = world, requests
        self._clients: dict[Hashable, _Client] = {}
        self._of_replica: dict[int, int] = {}
        self._busy: dict[int, asyncio.Lock] = {}
        """A lock for each replica of which a batch waits: one at a time is examined, whosever they are."""
        self._held: dict[int, list[_Waiting]] = {}
        """The batches that wait for a replica's folder."""
        self._count = self._bytes = 0
        self._spent_ms = 0
        self._begun, self._turns = asyncio.Semaphore(CLIENTS_AT_ONCE), Turns()

    def __len__(self) -> int:
        """How many batches wait or are being examined."""
        return self._count

    def validate_quickly(
        self, replica: Replica, records: Buffer, header: BatchHeader, at: int
    ) -> ValidatedBatches | None:
        """The outcome for most batches of clients, at once; None when this one is to be examined.

        It begins with ``header``; ``at`` is where ``records`` begin in what they are a view of, -1 if it is not known.
        """
        if self._of_replica and id(replica) in self._of_replica:
            return None
        if replica.log.cuts and _awaits_folder(replica):
            return None
        if len(records) < LARGE_BYTES:  # takes less than the clock can tell
            return replica.log.validator.validate_quickly(records, header, self._world.clock.wall_ms(), at=at)
        if self._spent_ms >= SPENT_MAX_MS:
            return None
        began_ms = self._world.clock.monotonic_ms()
        outcome = replica.log.validator.validate_quickly(records, header, self._world.clock.wall_ms(), at=at)
        self._spend(began_ms)
        return outcome

    def examine(
        self,
        replica: Replica,
        records: Buffer,
        then: Callable[[Outcome], object],
        client: Hashable = None,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> Outcome | None:
        """What comes of a client's batch that did not pass at a glance, or None: then ``then`` is told later.

        ``records`` are the caller's again once this returns None. ``client``: whose turn it takes. ``is_wanted``:
        whether anybody still waits for what comes of it.
        """
        is_held = id(replica) in self._held or _awaits_folder(replica)
        if not is_held and id(replica) not in self._of_replica and self._spent_ms < SPENT_MAX_MS:
            began_ms = self._world.clock.monotonic_ms()
            outcome = self._at_once(replica, records)
            self._spend(began_ms)
            if outcome is not None:
                return outcome
        size = len(records) + WAITING_COST
        others = self._clients.get(client)
        most = WAITING_BYTES_MAX * (2 if others is None or others.size + size <= LITTLE_BYTES else 1)
        if self._bytes + size > most:
            return InvalidAppend(Code.REQUEST_TIMED_OUT, f"{self._count} batches wait to be examined already")
        waiting = _Waiting(replica, bytearray(records), then, client, is_wanted)
        self._note(waiting)
        if is_held:
            self._hold(waiting)
        else:
            self._queue([waiting])
        return None

    def _note(self, waiting: _Waiting) -> None:
        """It waits from now on."""
        size, key = waiting.size, id(waiting.replica)
        self._count += 1
        self._bytes += size
        self._requests.hold(size)
        self._of_replica[key] = self._of_replica.get(key, 0) + 1
        self._clients.setdefault(waiting.client, _Client()).size += size

    def _queue(self, waiting: list[_Waiting]) -> None:
        for one in waiting:
            client = self._clients[one.client]
            client.waiting.append(one)
            if client.task is None:
                client.task = self._world.tasks.spawn(self._run(client), "examinations")

    def _hold(self, waiting: _Waiting) -> None:
        """It is examined when the replica's folder is there. Until then a client that has just been told of the
        partition would be told NOT_LEADER_OR_FOLLOWER.
        """
        replica = waiting.replica
        held = self._held.setdefault(id(replica), [])
        held.append(waiting)
        if len(held) == 1:
            self._world.tasks.call_later(FOLDER_WAIT_MS, lambda: self._waited(replica, held))

    def _waited(self, replica: Replica, held: list[_Waiting]) -> None:
        """The time is up, if these still wait: all are refused, in one turn, so that none is taken after the refusal of
        the one ahead; and so are others until the folder is there.
        """
        if self._held.get(id(replica)) is not held:
            return
        if (change := replica.log.awaited_folder) is not None:
            change.was_awaited = True
        del self._held[id(replica)]
        for waiting in held:
            self._forget(waiting)
            waiting.then(InvalidAppend(Code.NOT_LEADER_OR_FOLLOWER, "the partition's folder is not there yet"))

    def release(self, replica: Replica) -> None:
        """The replica's folder is there, or cannot be had: examine what waited for it, in order."""
        if self._held:
            self._queue(self._held.pop(id(replica), []))

    def _spend(self, began_ms: int) -> None:
        """Count the time since then."""
        spent_ms = self._world.clock.monotonic_ms() - began_ms
        if spent_ms:
            if not self._spent_ms:
                self._world.tasks.call_soon(self._turned)
            self._spent_ms += spent_ms

    def _at_once(self, replica: Replica, records: Buffer) -> Outcome | None:
        """The outcome, unless it takes longer than a step of the loop may."""
        seen = True
        if isinstance(records, bytes) or (isinstance(records, memoryview) and records.readonly):
            records, seen = bytearray(records), False
        examination = self._begin(replica, records, seen=seen)
        try:
            for _ in range(PARTS_AT_ONCE):
                if next(examination) is not None:
                    return None
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome
        return None

    def _begin(self, replica: Replica, data: bytearray | memoryview, *, seen: bool) -> Examination:
        return replica.log.validator.examine(data, self._world.clock.wall_ms(), False, replica.partition, seen=seen)

    def _turned(self) -> None:
        self._spent_ms = 0

    async def _run(self, client: _Client) -> None:
        """Examine what waits of a client, each when it is the client's turn."""
        tasks, waiting = self._world.tasks, client.waiting
        while waiting:
            one = waiting[0]
            async with self._busy.setdefault(id(one.replica), asyncio.Lock()), self._begun:
                outcome: Outcome = InvalidAppend(Code.REQUEST_TIMED_OUT, "nobody waits for it any more")
                await self._turns.next(tasks)
                if one.is_wanted():
                    examination = self._begin(one.replica, one.data, seen=False)
                    outcome = await run_pauses(tasks, examination, lambda: self._turns.next(tasks))
                waiting.popleft()
                self._forget(one)
                one.then(outcome)
        client.task = None

    def _forget(self, waiting: _Waiting) -> None:
        """It waits no more."""
        key, client = id(waiting.replica), self._clients[waiting.client]
        self._count -= 1
        self._bytes -= waiting.size
        self._requests.forget(waiting.size)
        client.size -= waiting.size
        if not client.size:
            del self._clients[waiting.client]
        self._of_replica[key] -= 1
        if not self._of_replica[key]:
            del self._of_replica[key]
            self._busy.pop(key, None)

    def stop(self) -> None:
        """Forget what waits: nobody who sent it was told anything yet."""
        for client in self._clients.values():
            if client.task is not None:
                client.task.cancel()
        self._clients.clear()
        self._held.clear()
        self._requests.forget(self._bytes)
        self._count = self._bytes = 0


def _awaits_folder(replica: Replica) -> bool:
    """Whether a batch for the replica is to wait for its folder."""
    change = replica.log.awaited_folder
    return change is not None and not change.was_awaited


async def run_pauses(tasks: Tasks, work: Pauses[T], pause: Callable[[], Awaitable[None]] | None = None) -> T:
    """What ``work`` returns; where it pauses the loop turns, or what ``pause`` gives is waited for, and what is slow
    runs on a thread."""
    while True:
        try:
            slow = next(work)
        except StopIteration as end:
            result: T = end.value
            return result
        if slow is None:
            await (yield_to_loop(tasks) if pause is None else pause())
        else:
            await tasks.off_loop(slow, COMPUTING)
