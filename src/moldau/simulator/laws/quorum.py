"""Laws of the metadata quorum, judged between turns on the machines inside the nodes: moldau.quorum.laws.

A look sees less than the room's own simulation, which sees every effect: commits are inferred from watermarks that
moved. R7 and R10 need more than a look, and are judged there only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moldau.broker.node import Node
from moldau.quorum import effects as do
from moldau.quorum import laws as room
from moldau.quorum.laws import Entry, History, Sight
from moldau.simulator.looking import Eyes
from moldau.wire import batch

JUDGES: tuple[Callable[[History, Sight], None], ...] = (
    room.one_leader_per_epoch,
    room.a_vote_is_never_changed,
    room.epochs_never_go_back,
    room.an_epoch_is_opened_once,
    room.a_leader_holds_all_that_is_committed,
    room.committed_is_the_same_everywhere,
    room.the_exposed_high_watermark_never_goes_back,
    room.a_majority_has_flushed_what_is_committed,
    room.observers_never_vote,
)
WINDOW = 60
"""How far below the watermark a look reads entries; the laws compare a window of 50."""


class Trimmed:
    """Stands for an entry that nobody had any more when it was looked for: a snapshot replaced it between two looks."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = object.__hash__


class QuorumLaws:
    """``look`` between turns."""

    def __init__(self, eyes: Eyes) -> None:
        self._eyes = eyes
        self._history = History(tuple(eyes.cluster.plan.voters), 0)
        self._seen: dict[int, Any] = {}
        self._last: dict[int, Any] = {}
        self._drivers: dict[int, Any] = {}
        self._persisted: dict[int, int] = {}

    def look(self) -> None:
        """Judge every seat whose role or watermark has changed."""
        seats = ((id, driver_of(node)) for id, node in self._eyes.nodes())
        # Where the metadata log's directory has failed, the node is about to end, and its log cannot be read.
        drivers = {id: driver for id, driver in seats if driver is not None and driver.deeds.log.dir.offline is None}
        self._last.update(drivers)  # of the dead too: what they flushed after the last look counts
        for id, driver in self._last.items():
            self._history.flushed[id] = driver.quorum.log.flushed
            if self._drivers.get(id) is not driver:  # another life: an epoch not yet persisted went with the last one
                self._drivers[id] = driver
                self._history.epochs[id] = self._persisted.get(id, 0)
        for id, driver in drivers.items():
            quorum = driver.quorum
            before = self._seen.get(id)
            if before is not None and before.role is quorum.role and before.high_watermark == quorum.high_watermark:
                continue
            rises = before is None or quorum.high_watermark > before.high_watermark
            self._seen[id] = quorum
            self._judge(id, driver, rises and quorum.high_watermark <= quorum.log.end)
        for id in set(self._seen) - set(drivers):
            del self._seen[id]
            self._history.leading[id] = None

    def _judge(self, id: int, driver: Any, rises: bool) -> None:
        quorum = driver.quorum
        effects: list[Any] = [do.Commit(quorum.high_watermark)] if rises else []
        now_ms = int(self._eyes.cluster.loop.time() * 1000)
        missed: list[Any] = [Trimmed()] * (quorum.log.start - len(self._history.committed))
        self._history.committed += missed
        persisted = driver.deeds.files.read_election()
        self._persisted[id] = persisted.epoch
        entry = _entries(driver.deeds.log)
        sight = Sight(id, quorum, persisted, quorum.log.flushed, entry, {}, effects, now_ms, 0)
        for judge in JUDGES:
            try:
                judge(self._history, sight)
            except AssertionError as error:
                self._eyes.cluster.breaks(str(error).partition("\n")[0])


def driver_of(node: Node) -> Any:
    """The driver of a node's seat; None before it sits and after it left."""
    plane = getattr(node, "plane", None)
    return None if plane is None else plane._driver


def _entries(log: Any) -> Callable[[int], Entry]:
    """offset -> (epoch, what stands there); a few batches are read at once, since laws ask for neighbours."""
    held: dict[int, Entry] = {}

    def entry(offset: int) -> Entry:
        if offset not in held:
            data = log.read(offset, 8_192, up_to=log.log_end_offset)
            for _, header in batch.headers(data):
                for one in range(header.base_offset, header.last_offset + 1):
                    held[one] = (header.leader_epoch, (header.base_offset, header.crc))
        return held[offset]

    return entry
