"""Troubles that come from inside machines: bits that rot, all of them gone at once, writes that hold up the loop.

So does an end amid a compaction, at any of its steps. Rot befalls one file of a killed node; text files get a byte that
no such file has, offset checkpoints a wrong digit too, which their checksum tells. Where it is
a log's, an operator throws the replica away at the end, as the broker says he should; nobody else repairs it. Within
the atlas of faults.py. Read next: run.py.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Sequence
from typing import TYPE_CHECKING

from moldau.storage.checkpoints import parse_offsets
from moldau.storage.names import LOG_STARTS, METADATA_TOPIC, RESTARTED
from moldau.storage.offset_files import OFFSET_FILES
from moldau.wire import batch

if TYPE_CHECKING:
    from moldau.simulator.cluster import Seat
    from moldau.simulator.faults import Chaos

MANY = (".log", ".index", ".timeindex", ".snapshot")
"""Kinds of which a partition has several; seven of ten bits are of these."""
LOG = ".log"
HALF_DONE = (".cleaned", ".swap")
"""What only a compaction writes; a start finishes it or undoes it."""
SPARED = (".lock", "meta.properties", ".checkpoint", ".tmp", *HALF_DONE)
STEPS, STEPS_OF_GROUPS, AMID_LIMIT_S = 25, (2, 6, 25), 10.0
CUT_SHORT = "a compaction was cut short"
MAGIC_AT = 16
"""Where in a batch the number of its format stands."""
UNCOVERED = 17
"""Base offset, length, leader epoch and magic of a batch."""
PATIENCE_S = 120.0
WAKE_S = (0.0, 0.0, 0.5, 3.0)


async def rot(chaos: Chaos) -> bool:
    """A node is killed, and before it comes back a bit of one of its files has turned."""
    seat = chaos.crashable(loses=True)
    if seat is None:
        return False
    chaos.cluster.kill(seat.id)
    path = _somewhere(chaos, seat)
    if path is None:
        chaos.come_back(seat)
        return False
    at = chaos.rng.choice(_bytes_that_tell(path, bytes(seat.disk.read(path))))
    seat.disk.rot(path, at, 0x01 if path.endswith(OFFSET_FILES) else 0x10)
    chaos.rotten.add(seat.id)
    chaos.cluster.tell(f"a bit of {path} on {seat.host} has turned, at byte {at}")
    await chaos.last()
    chaos.come_back(seat)
    if path.endswith(LOG):
        await chaos.last()
        await _throw_away(chaos, seat, path.rpartition("/")[0])
    chaos.rotten.discard(seat.id)
    return True


def _somewhere(chaos: Chaos, seat: Seat) -> str | None:
    """A file of a replica or a checkpoint; the metadata log is not among them (docs/testing-method.md)."""
    disk = seat.disk
    found = [
        path
        for folder in chaos.cluster.folders
        for path in disk.files(f"{folder}/")
        if METADATA_TOPIC not in path and not path.endswith(SPARED)
        and disk.size(path)
    ]  # fmt: skip
    large = [path for path in found if path.endswith(MANY)]
    small = [path for path in found if not path.endswith(MANY)]
    kind = large if large and (not small or chaos.rng.random() < 0.7) else small
    return chaos.rng.choice(kind) if kind else None


def _bytes_that_tell(path: str, data: bytes) -> Sequence[int]:
    """All bytes; of a log those that a checksum covers: of a batch's header not the first (KIP-98)."""
    if not path.endswith(LOG):
        return range(len(data))
    found = list(range(len(data)))
    for position, header in reversed(list(batch.headers(data))):
        del found[position : position + min(UNCOVERED, header.length)]
    return found


async def _throw_away(chaos: Chaos, seat: Seat, folder: str) -> None:
    """What an operator does about a log that is named as corrupt: the replica is removed, and fetched anew."""
    if not await chaos.cluster.until(lambda: seat.id not in chaos.busy and chaos.may_lose(seat.id), PATIENCE_S):
        chaos.cluster.tell(f"nobody else has what {folder} on {seat.host} holds: it stays")
        return
    chaos.busy.add(seat.id)
    if seat.owner is not None:
        chaos.cluster.kill(seat.id)
    if seat.disk.exists(folder):
        seat.disk.remove_tree(folder)
        seat.disk.sync_dir(folder.rpartition("/")[0])
    chaos.cluster.tell(f"the operator of {seat.host} removes {folder}")
    chaos.come_back(seat)


async def blackout(chaos: Chaos) -> bool:
    """All machines that are in no other trouble go at once: their power where every record is synced before it counts,
    else their processes only. Each comes back in its own time.
    """
    seats = [seat for seat in chaos.cluster.alive if seat.id not in chaos.busy]
    if len(seats) < 2 or not chaos.may_crash(*(seat.id for seat in seats)):
        return False
    chaos.cluster.tell("a blackout" if chaos.plan.flush else "all are killed at once")
    for seat in seats:
        chaos.busy.add(seat.id)
        chaos.crashed.add(seat.id)
        chaos.cluster.kill(seat.id, power=chaos.rng if chaos.plan.flush else None)
    await chaos.last()
    chaos.rng.shuffle(seats)
    for seat in seats:
        await asyncio.sleep(chaos.rng.choice(WAKE_S))
        chaos.come_back(seat)
    return True


async def stalled_writes(chaos: Chaos) -> bool:
    """The next write on the loop does not return for a while, and with it the whole process stands still."""
    seat = chaos.victim()
    if seat is None:
        return False
    stalled = seat.disk.stalls = []
    seat.delayed = True
    chaos.cluster.tell(f"writes on {seat.host} stall")
    await chaos.last()
    seat.disk.stalls = None
    for owner in stalled:
        chaos.cluster.resume(owner)
    chaos.cluster.tell(f"writes on {seat.host} return")
    chaos.busy.discard(seat.id)
    return True


async def damaged_segment(chaos: Chaos) -> bool:
    """A header in a sealed segment of a compacted log is damaged while its broker runs, and whole again later.

    Compaction reads the header before any checksum tells. The log may be uncleanable for it; nothing else may happen.
    """
    seat = chaos.crashable(loses=True)
    if seat is None:
        return False
    chaos.rotten.add(seat.id)
    path = _sealed(chaos, seat)
    if path is not None:
        seat.disk.rot(path, MAGIC_AT)
        chaos.cluster.tell(f"the first header of {path} on {seat.host} is damaged")
        await chaos.last()
        if seat.disk.exists(path):  # a leader's start may have passed it meanwhile
            seat.disk.rot(path, MAGIC_AT)
        chaos.cluster.tell(f"{path} on {seat.host} is whole again")
    chaos.rotten.discard(seat.id)
    chaos.busy.discard(seat.id)
    return path is not None


async def lost_segment(chaos: Chaos) -> bool:
    """The first segment of a log of a killed node vanishes with all its files; its operator hears of it and has the
    replica fetched anew."""
    seat = chaos.crashable(loses=True)
    if seat is None:
        return False
    chaos.cluster.kill(seat.id)
    folder = _folder_that_may_lose(chaos, seat)
    if folder is None:
        chaos.come_back(seat)
        return False
    chaos.rotten.add(seat.id)
    first = min(path for path in seat.disk.files(f"{folder}/") if path.endswith(LOG)).removesuffix(LOG)
    for path in seat.disk.files(f"{first}."):
        seat.disk.remove(path)
    seat.disk.sync_dir(folder)
    chaos.cluster.tell(f"{first}.* on {seat.host} are gone")
    await chaos.last()
    chaos.come_back(seat)
    await chaos.last()
    await _throw_away(chaos, seat, folder)
    chaos.rotten.discard(seat.id)
    return True


def _folder_that_may_lose(chaos: Chaos, seat: Seat) -> str | None:
    """A log of several segments whose start is recorded: of others nobody can tell where they began."""
    found = []
    for dir in chaos.cluster.folders:
        file = f"{dir}/{LOG_STARTS}"
        starts = parse_offsets(seat.disk.read(file), file) if seat.disk.exists(file) else {}
        for partition in starts:
            files = seat.disk.files(f"{dir}/{partition}/")
            if sum(path.endswith(LOG) for path in files) > 1 and not any(path.endswith(RESTARTED) for path in files):
                found.append(f"{dir}/{partition}")
    return chaos.rng.choice(found) if found else None


def _sealed(chaos: Chaos, seat: Seat) -> str | None:
    """The newest segment but one of a partition that has several: compaction has not been there yet."""
    found = []
    for folder in chaos.cluster.folders:
        logs: dict[str, list[str]] = {}
        for path in seat.disk.files(f"{folder}/"):
            if path.endswith(LOG) and METADATA_TOPIC not in path:
                logs.setdefault(path.rpartition("/")[0], []).append(path)
        found += [paths[-2] for paths in logs.values() if len(paths) > 1 and seat.disk.size(paths[-2]) > MAGIC_AT]
    return chaos.rng.choice(found) if found else None


async def amid_compaction(chaos: Chaos) -> bool:
    """A process ends, or its machine loses power, at some step of a compaction that it has under way."""
    seat = chaos.victim()
    if seat is None:
        return False
    power = chaos.rng if chaos.rng.random() < 0.5 else None
    # What groups write is little: a compaction of it alone has few steps.
    left = chaos.rng.randint(1, chaos.rng.choice(STEPS_OF_GROUPS) if chaos.plan.group_log else STEPS)
    fell: list[int] = []

    def step(path: str) -> None:
        nonlocal left
        left -= path.endswith(HALF_DONE)
        may = chaos.may_crash if power is None else chaos.may_lose
        if left <= 0 and seat.owner is not None and not fell and may(seat.id):
            fell.append(seat.id)
            chaos.crashed.add(seat.id)
            if power is not None:
                chaos.lossy.add(seat.id)
            chaos.cluster.tell(f"{seat.host} was at {path}")
            chaos.cluster.kill(seat.id, power=power)

    # In nobody's life: who dies must not be the one whose context its peers hear of it in.
    seat.disk.trap = lambda path: contextvars.Context().run(step, path) if path.endswith(HALF_DONE) else None
    await chaos.cluster.until(lambda: bool(fell) or not chaos.going, AMID_LIMIT_S)
    seat.disk.trap = None
    if fell:
        chaos.marks.add(CUT_SHORT)
        await chaos.last()
    chaos.come_back(seat)
    return bool(fell)
