"""Laws of the metadata quorum, checked between turns on the machines inside the nodes: moldau.quorum.laws.

A look sees less than the simulation of the quorum alone: commits are inferred from watermarks that moved. So laws about
what a machine does (R4's truncations, R6, R9) are checked at each of its steps, before it is done; ``coverage`` is
noted there too. Every look checks R7 (the snapshot is on disk), R10, and that committed epochs rise (C5). Read next:
simulator/coverage_points.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from moldau.broker.kraft.plane import QuorumPlane
from moldau.broker.node import Node
from moldau.quorum import Leader, Quorum
from moldau.quorum import effects as do
from moldau.quorum import events as on
from moldau.quorum import laws as machine_laws
from moldau.quorum.election_state import ElectionState
from moldau.quorum.laws import Entry, QuorumHistory, Sight
from moldau.quorum.messages import RaftFetchRequest, RaftSnapshotRequest
from moldau.simulator.cluster_observer import ClusterObserver
from moldau.simulator.machines.quorum_coverage import coverage
from moldau.wire import batch

CHECKS: tuple[Callable[[QuorumHistory, Sight], None], ...] = (
    machine_laws.one_leader_per_epoch,
    machine_laws.a_vote_is_never_changed,
    machine_laws.epochs_never_go_back,
    machine_laws.an_epoch_is_opened_once,
    machine_laws.a_leader_holds_all_that_is_committed,
    machine_laws.committed_is_the_same_everywhere,
    machine_laws.the_exposed_high_watermark_never_goes_back,
    machine_laws.observers_never_vote,
)
AT_EACH_STEP: tuple[Callable[[QuorumHistory, Sight], None], ...] = (
    machine_laws.nothing_committed_is_truncated,
    machine_laws.nothing_is_exposed_before_the_leaders_own_record,
    machine_laws.voters_change_one_at_a_time,
    machine_laws.what_the_log_decides_counts_at_once,
    machine_laws.a_removed_leader_steps_down,
)
CLOCKS_DIFFER = 1.03
LATE_MS = 100
"""A timer's turn comes when the loop gets to it."""


class Trimmed:
    """Stands for an entry that no node has any more: a snapshot replaced it between two looks."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = object.__hash__


_NOTHING = ElectionState(0)


def _no_entry(offset: int) -> Entry:
    raise AssertionError(f"the laws of steps read no log, and asked for {offset}")


class QuorumLaws:
    """``look`` between turns."""

    def __init__(self, observer: ClusterObserver) -> None:
        self._observer = observer
        self._history = QuorumHistory(tuple(observer.cluster.plan.voters), 0)
        self._awake_ms: dict[int, int] = {}
        self._checked_up_to = 0
        self.coverage: set[str] = set()
        self._seen: dict[int, Any] = {}
        self._last: dict[int, Any] = {}
        self._drivers: dict[int, Any] = {}
        self._persisted: dict[int, int] = {}
        self._disks: dict[int, bytes] = {}

    def look(self) -> None:
        """Check every node whose role or watermark has changed."""
        self._forget_replaced()
        hosts = ((id, driver_of(node)) for id, node in self._observer.nodes())
        # Where the metadata log's directory has failed, the node is about to end, and its log cannot be read.
        drivers = {id: driver for id, driver in hosts if driver is not None and driver.executor.log.dir.offline is None}
        self._last.update(drivers)  # of the dead too: what they flushed after the last look counts
        for id, driver in self._last.items():
            self._history.flushed[id] = driver.quorum.log.flushed
            if self._drivers.get(id) is not driver:  # another life: an epoch not yet persisted went with the last one
                self._drivers[id] = driver
                self._history.epochs[id] = self._persisted.get(id, 0)
                self._follow(id, driver)
        for id, driver in drivers.items():
            quorum = driver.quorum
            self._has_a_majority(id, driver)
            self._has_its_snapshot(id, driver)
            before = self._seen.get(id)
            if before is not None and before.role is quorum.role and before.high_watermark == quorum.high_watermark:
                continue
            rises = before is None or quorum.high_watermark > before.high_watermark
            self._seen[id] = quorum
            self._check_laws(id, driver, rises and quorum.high_watermark <= quorum.log.end)
        for id in set(self._seen) - set(drivers):
            del self._seen[id]
            self._history.leading[id] = None

    def _forget_replaced(self) -> None:
        """What a controller had said and flushed is gone with its disk; on another one it is another replica."""
        for id, directory in self._observer.cluster.directories.items():
            if self._disks.setdefault(id, directory) == directory:
                continue
            self._disks[id] = directory
            self._history.flushed[id] = 0
            for of in (self._history.epochs, self._persisted, self._last):
                of.pop(id, None)
            self._history.votes = {key: vote for key, vote in self._history.votes.items() if key[0] != id}

    def _check_laws(self, id: int, driver: Any, rises: bool) -> None:  # Any: of a real node, looked at from outside
        quorum = driver.quorum
        effects: list[Any] = [do.Commit(quorum.high_watermark)] if rises else []
        now_ms = int(self._observer.cluster.loop.time() * 1000)
        missed: list[Any] = [Trimmed()] * (quorum.log.start - len(self._history.committed))
        self._history.committed += missed
        persisted = driver.executor.files.read_election()
        self._persisted[id] = persisted.epoch
        entry = _entries(driver.executor.log)
        sight = Sight(id, quorum, persisted, quorum.log.flushed, entry, {}, effects, now_ms, 0)
        self._submit(CHECKS, sight)
        # By which voters a commit was counted was noted when it was made: they may be others by now.
        self._submit((machine_laws.a_majority_has_flushed_what_is_committed,), sight._replace(effects=[]))
        self._epochs_rise()

    def _submit(self, checks: Iterable[Callable[[QuorumHistory, Sight], None]], sight: Sight) -> None:
        for check in checks:
            try:
                check(self._history, sight)
            except AssertionError as error:
                self._observer.cluster.violated(str(error).partition("\n")[0])

    # ---- at each step

    def _follow(self, id: int, driver: Any) -> None:
        """See every event and every effect of a driver, from outside: production code knows nothing of it."""
        feed, do_all = driver.feed, driver._do
        current: list[tuple[Quorum, on.Event]] = []

        def fed(event: on.Event) -> None:
            quorum = driver.quorum
            requests = RaftFetchRequest | RaftSnapshotRequest
            if (
                isinstance(event, on.RequestReceived)
                and isinstance(event.request, requests)
                and isinstance(quorum.role, Leader)
            ):
                request = event.request
                if request.epoch == quorum.role.epoch:
                    self._history.fetched_ms[id, request.epoch, request.replica.id] = self._now_ms()
            current.append((quorum, event))
            feed(event)
            current.pop()

        def done(effects: list[do.Effect]) -> None:
            if current:
                self._step(id, driver.quorum, current[-1], effects)
            do_all(effects)

        driver.feed, driver._do = fed, done

    def _step(self, id: int, quorum: Quorum, cause: tuple[Quorum, on.Event], effects: list[do.Effect]) -> None:
        before, event = cause
        self.coverage |= {f"quorum: {point}" for point in coverage(before, quorum, event, effects)}
        counted = [one for one in effects if isinstance(one, do.Commit | do.AppendVoters)]
        if isinstance(before.role, Leader) and any(isinstance(one, do.Commit) for one in counted):
            changed_after = isinstance(counted[-1], do.AppendVoters)
            self._history.counted = (quorum.voter_log.before if changed_after else quorum.voters).ids
        if effects:
            self._submit(AT_EACH_STEP, Sight(id, quorum, _NOTHING, 0, _no_entry, {}, effects, self._now_ms(), 0))

    # ---- by the clock, and on disk

    def _now_ms(self) -> int:
        return int(self._observer.cluster.loop.time() * 1000)

    def _has_a_majority(self, id: int, driver: Any) -> None:
        """R10, on the true clock; a process that stood still resigns when it goes on."""
        owner = self._observer.cluster.hosts[id].owner
        if owner is None or owner.paused:
            self._awake_ms[id] = self._now_ms()
        elif isinstance(driver.quorum.role, Leader):
            self._history.fetch_timeout_ms = int(driver.quorum.timing.fetch_timeout_ms * CLOCKS_DIFFER) + LATE_MS
            awake_ms = self._awake_ms.get(id, 0)
            sight = Sight(id, driver.quorum, _NOTHING, 0, _no_entry, {}, [], self._now_ms(), awake_ms)
            self._submit((machine_laws.a_leader_without_a_majority_resigns,), sight)

    def _has_its_snapshot(self, id: int, driver: Any) -> None:
        """R7: a log that starts late has the snapshot that ends there, in its memory and on its disk."""
        if driver._doing:  # the snapshot may be on its way to the disk
            return
        log, files = driver.quorum.log, driver.executor.files
        points = [point for point in log.snapshots if point.offset == log.start]
        if log.start and not (points and self._observer.cluster.hosts[id].disk.exists(files.snapshot_path(points[0]))):
            self._observer.cluster.violated(f"R7: n{id} starts at {log.start}, and has no snapshot that ends there")

    def _epochs_rise(self) -> None:
        """C5: no record of a deposed controller is committed after one of its successor."""
        committed = self._history.committed
        for offset in range(max(self._checked_up_to, 1), len(committed)):
            older, newer = committed[offset - 1], committed[offset]
            if not isinstance(older, Trimmed) and not isinstance(newer, Trimmed) and older[0] > newer[0]:
                self._observer.cluster.violated(
                    f"C5: epoch {newer[0]} is committed at {offset}, after epoch {older[0]}"
                )
        self._checked_up_to = len(committed)


def driver_of(node: Node) -> Any:
    """Return the driver of a node's quorum; None before the node takes part in it and after it left."""
    plane = node.plane if node.has_joined else None
    return plane._driver if isinstance(plane, QuorumPlane) else None


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
