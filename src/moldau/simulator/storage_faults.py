"""Faults inside hosts: corrupted files, a power cut of all hosts at once, stalled writes, crashes in compaction.

Corruption strikes one file of a killed node; text files get a byte that no such file has, offset checkpoints a wrong
digit too, which their checksum detects. Where a log is corrupted, an operator removes that replica at the end, as the
broker's log line asks; nothing else repairs it. Within the fault model of faults.py. Read next: run.py.
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
    from moldau.simulator.cluster import SimulatedHost
    from moldau.simulator.fault_injector import FaultInjector

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


async def corrupt(injector: FaultInjector) -> bool:
    """A node is killed, and before it comes back a bit of one of its files has turned."""
    host = injector.crashable(loses=True)
    if host is None:
        return False
    injector.cluster.kill(host.id)
    path = _somewhere(injector, host)
    if path is None:
        injector.come_back(host)
        return False
    at = injector.rng.choice(_bytes_that_tell(path, bytes(host.disk.read(path))))
    host.disk.corrupt(path, at, 0x01 if path.endswith(OFFSET_FILES) else 0x10)
    injector.corrupted.add(host.id)
    injector.cluster.record_event(f"a bit of {path} on {host.hostname} has turned, at byte {at}")
    await injector.last()
    injector.come_back(host)
    if path.endswith(LOG):
        await injector.last()
        await _throw_away(injector, host, path.rpartition("/")[0])
    injector.corrupted.discard(host.id)
    return True


def _somewhere(injector: FaultInjector, host: SimulatedHost) -> str | None:
    """A file of a replica or a checkpoint; the metadata log is not among them (docs/testing-method.md)."""
    disk = host.disk
    found = [
        path
        for folder in injector.cluster.folders
        for path in disk.files(f"{folder}/")
        if METADATA_TOPIC not in path and not path.endswith(SPARED)
        and disk.size(path)
    ]  # fmt: skip
    large = [path for path in found if path.endswith(MANY)]
    small = [path for path in found if not path.endswith(MANY)]
    kind = large if large and (not small or injector.rng.random() < 0.7) else small
    return injector.rng.choice(kind) if kind else None


def _bytes_that_tell(path: str, data: bytes) -> Sequence[int]:
    """All bytes; of a log those that a checksum covers: of a batch's header not the first (KIP-98)."""
    if not path.endswith(LOG):
        return range(len(data))
    found = list(range(len(data)))
    for position, header in reversed(list(batch.headers(data))):
        del found[position : position + min(UNCOVERED, header.length)]
    return found


async def _throw_away(injector: FaultInjector, host: SimulatedHost, folder: str) -> None:
    """What an operator does about a log that is named as corrupt: the replica is removed, and fetched anew."""
    if not await injector.cluster.until(
        lambda: host.id not in injector.busy and injector.may_lose(host.id), PATIENCE_S
    ):
        injector.cluster.record_event(f"nobody else has what {folder} on {host.hostname} holds: it stays")
        return
    injector.busy.add(host.id)
    if host.owner is not None:
        injector.cluster.kill(host.id)
    if host.disk.exists(folder):
        host.disk.remove_tree(folder)
        host.disk.sync_dir(folder.rpartition("/")[0])
    injector.cluster.record_event(f"the operator of {host.hostname} removes {folder}")
    injector.come_back(host)


async def blackout(injector: FaultInjector) -> bool:
    """All hosts that have no other fault go at once: their power where every record is synced before it counts,
    else their processes only. Each comes back in its own time.
    """
    hosts = [host for host in injector.cluster.alive if host.id not in injector.busy]
    if len(hosts) < 2 or not injector.may_crash(*(host.id for host in hosts)):
        return False
    injector.cluster.record_event("a blackout" if injector.plan.flush else "all are killed at once")
    for host in hosts:
        injector.busy.add(host.id)
        injector.crashed.add(host.id)
        injector.cluster.kill(host.id, power=injector.rng if injector.plan.flush else None)
    await injector.last()
    injector.rng.shuffle(hosts)
    for host in hosts:
        await asyncio.sleep(injector.rng.choice(WAKE_S))
        injector.come_back(host)
    return True


async def stalled_writes(injector: FaultInjector) -> bool:
    """The next write on the loop does not return for a while, and with it the whole process stands still."""
    host = injector.victim()
    if host is None:
        return False
    stalled = host.disk.stalls = []
    host.delayed = True
    injector.cluster.record_event(f"writes on {host.hostname} stall")
    await injector.last()
    host.disk.stalls = None
    for owner in stalled:
        injector.cluster.resume(owner)
    injector.cluster.record_event(f"writes on {host.hostname} return")
    injector.busy.discard(host.id)
    return True


async def damaged_segment(injector: FaultInjector) -> bool:
    """A header in a sealed segment of a compacted log is damaged while its broker runs, and whole again later.

    Compaction reads the header before any checksum tells. The log may be uncleanable for it; nothing else may happen.
    """
    host = injector.crashable(loses=True)
    if host is None:
        return False
    injector.corrupted.add(host.id)
    path = _sealed(injector, host)
    if path is not None:
        host.disk.corrupt(path, MAGIC_AT)
        injector.cluster.record_event(f"the first header of {path} on {host.hostname} is damaged")
        await injector.last()
        if host.disk.exists(path):  # a leader's start may have passed it meanwhile
            host.disk.corrupt(path, MAGIC_AT)
        injector.cluster.record_event(f"{path} on {host.hostname} is whole again")
    injector.corrupted.discard(host.id)
    injector.busy.discard(host.id)
    return path is not None


async def lost_segment(injector: FaultInjector) -> bool:
    """The first segment of a log of a killed node vanishes with all its files; its operator reads of it and has the
    replica fetched anew."""
    host = injector.crashable(loses=True)
    if host is None:
        return False
    injector.cluster.kill(host.id)
    folder = _folder_that_may_lose(injector, host)
    if folder is None:
        injector.come_back(host)
        return False
    injector.corrupted.add(host.id)
    first = min(path for path in host.disk.files(f"{folder}/") if path.endswith(LOG)).removesuffix(LOG)
    for path in host.disk.files(f"{first}."):
        host.disk.remove(path)
    host.disk.sync_dir(folder)
    injector.cluster.record_event(f"{first}.* on {host.hostname} are gone")
    await injector.last()
    injector.come_back(host)
    await injector.last()
    await _throw_away(injector, host, folder)
    injector.corrupted.discard(host.id)
    return True


def _folder_that_may_lose(injector: FaultInjector, host: SimulatedHost) -> str | None:
    """Return a log of several segments whose start is recorded: of others it cannot be known where they began."""
    found = []
    for dir in injector.cluster.folders:
        file = f"{dir}/{LOG_STARTS}"
        starts = parse_offsets(host.disk.read(file), file) if host.disk.exists(file) else {}
        for partition in starts:
            files = host.disk.files(f"{dir}/{partition}/")
            if sum(path.endswith(LOG) for path in files) > 1 and not any(path.endswith(RESTARTED) for path in files):
                found.append(f"{dir}/{partition}")
    return injector.rng.choice(found) if found else None


def _sealed(injector: FaultInjector, host: SimulatedHost) -> str | None:
    """The newest segment but one of a partition that has several: compaction has not been there yet."""
    found = []
    for folder in injector.cluster.folders:
        logs: dict[str, list[str]] = {}
        for path in host.disk.files(f"{folder}/"):
            if path.endswith(LOG) and METADATA_TOPIC not in path:
                logs.setdefault(path.rpartition("/")[0], []).append(path)
        found += [paths[-2] for paths in logs.values() if len(paths) > 1 and host.disk.size(paths[-2]) > MAGIC_AT]
    return injector.rng.choice(found) if found else None


async def amid_compaction(injector: FaultInjector) -> bool:
    """A process ends, or its host loses power, at some step of a compaction."""
    host = injector.victim()
    if host is None:
        return False
    power = injector.rng if injector.rng.random() < 0.5 else None
    # What groups write is little: a compaction of it alone has few steps.
    left = injector.rng.randint(1, injector.rng.choice(STEPS_OF_GROUPS) if injector.plan.group_log else STEPS)
    fell: list[int] = []

    def step(path: str) -> None:
        nonlocal left
        left -= path.endswith(HALF_DONE)
        may = injector.may_crash if power is None else injector.may_lose
        if left <= 0 and host.owner is not None and not fell and may(host.id):
            fell.append(host.id)
            injector.crashed.add(host.id)
            if power is not None:
                injector.lossy.add(host.id)
            injector.cluster.record_event(f"{host.hostname} was at {path}")
            injector.cluster.kill(host.id, power=power)

    # Outside every process: peers must not learn of a death in the context of the process that died.
    host.disk.trap = lambda path: contextvars.Context().run(step, path) if path.endswith(HALF_DONE) else None
    await injector.cluster.until(lambda: bool(fell) or not injector.going, AMID_LIMIT_S)
    host.disk.trap = None
    if fell:
        injector.coverage.add(CUT_SHORT)
        await injector.last()
    injector.come_back(host)
    return bool(fell)
