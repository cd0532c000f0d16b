"""A seeded simulation of quorum machines: a heap of events, faulty network and disks, every law after each event.

Messages are delayed, lost or cut off; a crash loses what was not flushed (and may strike between two effects); nodes
pause. A value is proposed at the active leader every few milliseconds. Which faults happen, and when, is not decided
here: read next quorum_swarm.py.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from moldau.model import Code
from moldau.quorum import (
    At,
    ElectionState,
    Leader,
    LogView,
    OffsetAndEpoch,
    Quorum,
    ReplicaKey,
    Timing,
    Unattached,
    VoterSet,
    deadline_ms,
    laws,
    start,
    step,
)
from moldau.quorum import effects as do
from moldau.quorum import events as on
from moldau.quorum import messages as say
from moldau.quorum.log_view import EpochStart
from moldau.simulator.machines.quorum_coverage import coverage, told
from moldau.simulator.machines.record import Broken, RunRecord


class Crash(Exception):
    """The node dies in the middle of its effects."""


@dataclass
class QuorumDisk:
    election: ElectionState = ElectionState()  # noqa: RUF009  # it cannot be changed
    start: int = 0
    entries: list[laws.Entry] = field(default_factory=list)
    flushed: int = 0
    snapshots: dict[int, list[laws.Entry]] = field(default_factory=dict)
    noted: OffsetAndEpoch = OffsetAndEpoch(0, 0)  # noqa: RUF009  # it cannot be changed
    """What was committed, and in which epoch: kept beside the log."""

    @property
    def end(self) -> int:
        return self.start + len(self.entries)

    def entry(self, offset: int) -> laws.Entry:
        return self.entries[offset - self.start]

    def cut(self, end: int) -> None:
        del self.entries[end - self.start :]
        self.flushed = min(self.flushed, end)

    def view(self) -> LogView:
        epochs: list[EpochStart] = []
        for index, (epoch, _) in enumerate(self.entries):
            if not epochs or epochs[-1].epoch != epoch:
                epochs.append(EpochStart(epoch, self.start + index))
        points = tuple(OffsetAndEpoch(end, held[-1][0]) for end, held in sorted(self.snapshots.items()))
        return LogView(start=self.start, end=self.end, flushed=self.end, epochs=tuple(epochs), snapshots=points)


@dataclass
class QuorumNode:
    id: int
    disk: QuorumDisk = field(default_factory=QuorumDisk)
    quorum: Quorum | None = None
    life: int = 0
    paused_until: int = 0
    tick_at: int | None = None
    syncing: bool = False
    sync_again: bool = False
    pieces: list[laws.Entry] = field(default_factory=list)
    waiting: dict[int, tuple[int, Any]] = field(default_factory=dict)
    active: int | None = None
    closed: bool = False


@dataclass(frozen=True)
class Token:
    node: int
    life: int
    number: int
    request: Any  # Any: each request has its own kind


@dataclass
class QuorumSimulation:
    """``voters`` vote, ``observers`` more nodes only watch."""

    seed: int
    voters: int = 3
    observers: int = 0
    loss: float = 0.0
    crash: float = 0.0
    delay_ms: tuple[int, int] = (1, 6)
    propose_ms: int = 20
    sync_ms: int = 5
    snapshot_every: int = 0
    fetch_batches: int = 8
    chunk: int = 100
    check_majority: bool = True
    timing: Timing = Timing()  # noqa: RUF009  # it cannot be changed
    record: RunRecord = field(default_factory=RunRecord)

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        self.now = 0
        self.heap: list[tuple[int, int, Callable[[], None]]] = []
        self.sequence = 0
        self.nodes = {id: QuorumNode(id) for id in range(self.voters + self.observers)}
        self.voter_set = VoterSet.of(*range(self.voters))
        self.history = laws.QuorumHistory(tuple(range(self.voters)), self.timing.fetch_timeout_ms)
        self.blocked: Callable[[int, int], bool] = lambda source, target: False
        self.value = 0
        for id in self.nodes:
            self.after(self.rng.randrange(20), partial(self.boot, id))
        if self.propose_ms:
            self.after(self.propose_ms, self._propose)

    # --- time ---

    def after(self, delay: int, call: Callable[[], None]) -> None:
        self.sequence += 1
        heapq.heappush(self.heap, (self.now + delay, self.sequence, call))

    def run(self, until: Callable[[], bool], limit_ms: int = 60_000) -> None:
        """Run until a condition holds; by L8 it does in time, else the violation says what was there instead."""
        deadline = self.now + limit_ms
        while not until():
            if not self.heap or self.heap[0][0] > deadline:
                raise Broken("L8", f"not within {limit_ms} ms; {self.describe()}")
            self.now, _, call = heapq.heappop(self.heap)
            call()

    def run_for(self, span_ms: int) -> None:
        end = self.now + span_ms
        while self.heap and self.heap[0][0] <= end:
            self.now, _, call = heapq.heappop(self.heap)
            call()
        self.now = end

    def describe(self) -> str:
        parts = []
        for node in self.nodes.values():
            quorum = node.quorum
            what = "down" if quorum is None else f"{quorum.role} log={quorum.log} hw={quorum.high_watermark}"
            parts.append(f"{node.id}: {what}")
        return "\n".join(parts)

    # --- starting and dying ---

    def boot(self, id: int) -> None:
        node = self.nodes[id]
        if node.quorum is not None:
            return
        node.life += 1
        node.closed = False
        node.tick_at, node.syncing, node.sync_again, node.active = None, False, False, None
        node.waiting.clear()
        node.disk.flushed = node.disk.end
        election = self.remembered(node.disk)
        voter = id in self.voter_set.ids
        blank = Quorum(
            me=ReplicaKey(id),
            voters=self.voter_set,
            role=Unattached(0),
            timing=self.timing,
            log=node.disk.view(),
            committed_before=node.disk.noted.offset,
            flushes=voter,
        )
        if blank.lacks_committed and election.epoch < node.disk.noted.epoch:
            election = ElectionState(node.disk.noted.epoch)
        quorum, effects = start(blank, election, self._at())
        self._finish(node, quorum, effects, None)

    def remembered(self, disk: QuorumDisk) -> ElectionState:
        """Return what a node finds of its last process."""
        return disk.election

    def ordered(self, effects: list[do.Effect]) -> list[do.Effect]:
        """Return the effects in the order in which a driver carries them out: the given one."""
        return effects

    def kill(self, id: int, *, power: bool = True) -> None:
        """Without power everything not flushed may go (a random part of it); a mere kill -9 loses nothing written."""
        node = self.nodes[id]
        if node.quorum is None:
            return
        node.quorum = None
        node.life += 1
        disk = node.disk
        if power and disk.flushed < disk.end:
            disk.cut(self.rng.randint(max(disk.flushed, disk.start), disk.end))
        for other in self.nodes.values():
            for number, (peer, request) in list(other.waiting.items()):
                if peer == id:
                    self._fail_later(other, number, on.Unreachable(peer, request))

    def lose_log(self, id: int) -> None:
        """Its folder is removed: its log, its snapshots and its votes; what is noted beside the folder stays."""
        noted = self.nodes[id].disk.noted
        self.wipe(id)
        self.nodes[id].disk.noted = noted

    def wipe(self, id: int) -> None:
        self.kill(id)
        self.nodes[id].disk = QuorumDisk()
        self.history.flushed[id] = 0
        self.history.epochs[id] = 0
        self.history.votes = {key: vote for key, vote in self.history.votes.items() if key[0] != id}

    def pause(self, id: int, span_ms: int) -> None:
        self.nodes[id].paused_until = self.now + span_ms

    def shut_down(self, id: int) -> None:
        self.feed(id, on.ShutDown())

    # --- events ---

    def _at(self) -> At:
        return At(self.now, self.rng.randrange(1 << 30))

    def feed(self, id: int, event: on.Event, life: int | None = None) -> None:
        node = self.nodes[id]
        if node.quorum is None or (life is not None and node.life != life):
            return
        if self.now < node.paused_until:
            self.after(node.paused_until - self.now, lambda: self.feed(id, event, node.life if life is None else life))
            return
        if isinstance(event, on.RequestReceived) and isinstance(node.quorum.role, Leader):
            request, epoch = event.request, node.quorum.role.epoch
            if isinstance(request, say.RaftFetchRequest | say.RaftSnapshotRequest) and request.epoch == epoch:
                self.history.fetched_ms[id, epoch, request.replica.id] = self.now
        quorum, effects = step(node.quorum, event, self._at())
        self._finish(node, quorum, effects, event)

    def _finish(self, node: QuorumNode, quorum: Quorum, effects: list[do.Effect], event: on.Event | None) -> None:
        self.record.event(self.now, told(node.id, quorum, event))
        self.record.coverage |= coverage(node.quorum, quorum, event, effects)
        life = node.life
        node.quorum = quorum
        try:
            for effect in self.ordered(effects):
                if self.crash and self.rng.random() < self.crash:
                    self.record.coverage.add("crashed between two effects")
                    raise Crash
                self._execute(node, effect)
        except Crash:
            self.kill(node.id)
            self.after(self.rng.randrange(1, 3000), lambda: self.boot(node.id))
        if node.closed:
            self.kill(node.id, power=False)
        alive = node.quorum is not None and node.life == life
        self._check_laws(node, effects if alive else [])
        if alive:
            self._arm(node)

    def _check_laws(self, node: QuorumNode, effects: list[do.Effect]) -> None:
        disk = node.disk
        flushed = disk.flushed if self.check_majority else 1 << 60
        seen = laws.Sight(
            node.id,
            node.quorum,
            disk.election,
            flushed,
            disk.entry,
            disk.snapshots,
            effects,
            self.now,
            node.paused_until,
        )
        self.record.check_all(laws.LAWS, self.history, seen)

    def _arm(self, node: QuorumNode) -> None:
        assert node.quorum is not None
        due = deadline_ms(node.quorum)
        if due is not None and (node.tick_at is None or due < node.tick_at):
            node.tick_at = max(due, self.now)
            life = node.life
            self.after(node.tick_at - self.now, lambda: self._tick(node, life))

    def _tick(self, node: QuorumNode, life: int) -> None:
        if node.life != life or node.quorum is None:
            return
        if self.now < node.paused_until:
            self.after(node.paused_until - self.now, lambda: self._tick(node, life))
            return
        if node.tick_at is None or node.tick_at > self.now:
            return
        node.tick_at = None
        due = deadline_ms(node.quorum)
        if due is not None and due <= self.now:
            self.feed(node.id, on.Tick())
        else:
            self._arm(node)

    def _propose(self) -> None:
        self.after(self.propose_ms, self._propose)
        leader = self.leader()
        if leader is not None and self.nodes[leader].active is not None:
            self.value += 1
            epoch = self.nodes[leader].active
            assert epoch is not None
            self.feed(leader, on.Propose(epoch, self.rng.choice((1, 1, 1, 3)), self.value))

    # --- effects ---

    def _execute(self, node: QuorumNode, effect: do.Effect) -> None:
        disk, life = node.disk, node.life
        match effect:
            case do.Persist(election):
                disk.election = election
            case do.AppendLeaderChange(offset, epoch, leader):
                assert offset == disk.end
                disk.entries.append((epoch, f"leader {leader}"))
            case do.AppendProposed(offset, epoch, count, data):
                assert offset == disk.end
                disk.entries += [(epoch, f"{data}/{index}") for index in range(count)]
            case do.AppendFetched(spans, data):
                assert spans[0].base == disk.end
                disk.entries += data
            case do.Truncate(end):
                disk.cut(end)
            case do.Sync():
                self._sync(node)
            case do.SendRequest(peer, request):
                self._send(node, peer, request)
            case do.SendResponse(token, answer):
                votes = isinstance(answer, say.RaftVoteResponse) and isinstance(token.request, say.RaftVoteRequest)
                if votes and not token.request.pre_vote:
                    spoken = laws.a_vote_is_spoken_after_it_is_persisted
                    self.record.check(spoken, disk.election, answer, token.request.candidate)
                self._reply(node, token, answer)
            case do.ServeRecords(token, answer, begin, end):
                self._serve(node, token, answer, begin, end)
            case do.ServeSnapshot(token, answer):
                self._serve_snapshot(node, token, answer)
            case do.WriteChunk(_, position, data):
                node.pieces = [*node.pieces[:position], *data]
            case do.InstallSnapshot(snapshot):
                node.disk.snapshots = {snapshot.offset: node.pieces}
                disk.start, disk.entries, disk.flushed, node.pieces = snapshot.offset, [], snapshot.offset, []
            case do.Trim(begin):
                del disk.entries[: begin - disk.start]
                disk.start = begin
                disk.snapshots = {end: held for end, held in disk.snapshots.items() if end >= begin}
            case do.Commit(high_watermark):
                if high_watermark > disk.noted.offset and node.quorum is not None:
                    disk.noted = OffsetAndEpoch(high_watermark, node.quorum.role.epoch)
                if self.snapshot_every and self.rng.randrange(self.snapshot_every) == 0:
                    self.after(0, lambda: self._take_snapshot(node, high_watermark, life))
            case do.BecameActive(epoch):
                node.active = epoch
            case do.LostActive():
                node.active = None
            case do.Closed():
                node.closed = True

    def _sync(self, node: QuorumNode) -> None:
        if node.syncing:
            node.sync_again = True
            return
        node.syncing = True
        life, end = node.life, node.disk.end
        self.after(self.rng.randrange(self.sync_ms), lambda: self._synced(node, end, life))

    def _synced(self, node: QuorumNode, end: int, life: int) -> None:
        if node.life != life:
            return
        node.syncing = False
        node.disk.flushed = max(node.disk.flushed, min(end, node.disk.end))
        if node.sync_again:
            node.sync_again = False
            self._sync(node)
        self.feed(node.id, on.Flushed(end), life)

    def _serve(self, node: QuorumNode, token: Token, answer: Any, begin: int, end: int) -> None:
        spans: list[say.BatchSpan] = []
        data: list[laws.Entry] = []
        offset = begin
        while offset < end and len(spans) < self.fetch_batches:
            entry = node.disk.entry(offset)
            data.append(entry)
            spans.append(say.BatchSpan(offset, offset + 1, entry[0]))
            offset += 1
        self._reply(node, token, answer._replace(spans=tuple(spans), data=data))

    def _serve_snapshot(self, node: QuorumNode, token: Token, answer: say.RaftSnapshotResponse) -> None:
        held = node.disk.snapshots[answer.snapshot.offset]
        piece = held[answer.position : answer.position + self.chunk]
        code = Code.NONE if answer.position <= len(held) else Code.POSITION_OUT_OF_RANGE
        full = say.RaftSnapshotResponse(
            code, answer.epoch, answer.leader, answer.snapshot, len(held), answer.position, len(piece), piece
        )
        self._reply(node, token, full)

    def _take_snapshot(self, node: QuorumNode, end: int, life: int) -> None:
        if node.life != life or node.quorum is None or end <= max(node.disk.start, 0) or end > node.disk.end:
            return
        if any(end <= held for held in node.disk.snapshots):
            return
        newest = max(node.disk.snapshots, default=0)
        base = node.disk.snapshots.get(newest, [])
        older = sorted(node.disk.snapshots)
        node.disk.snapshots[end] = base + [node.disk.entry(offset) for offset in range(newest, end)]
        begin = older[end % len(older)] if older and end % 2 else None
        self.feed(node.id, on.SnapshotTaken(OffsetAndEpoch(end, node.disk.entry(end - 1)[0]), begin), life)

    # --- network ---

    def _send(self, node: QuorumNode, peer: int, request: Any) -> None:  # Any: each request's own kind
        self.sequence += 1
        number = self.sequence
        node.waiting[number] = (peer, request)
        token = Token(node.id, node.life, number, request)
        life = node.life
        self.after(2000, lambda: self._fail(node, number, life, on.Unreachable(peer, request)))
        if self._lost(node.id, peer):
            return
        self.after(self.rng.randint(*self.delay_ms), lambda: self._arrive(token, peer))

    def _lost(self, source: int, target: int) -> bool:
        return self.blocked(source, target) or (self.loss > 0 and self.rng.random() < self.loss)

    def _arrive(self, token: Token, peer: int) -> None:
        if self.nodes[peer].quorum is None:
            asker = self.nodes[token.node]
            self._fail_later(asker, token.number, on.ConnectionRefused(peer, token.request))
            return
        self.feed(peer, on.RequestReceived(token, token.request))

    def _reply(self, node: QuorumNode, token: Token, answer: Any) -> None:  # Any: each request has its own answer
        if self._lost(node.id, token.node):
            return
        event = on.ResponseReceived(node.id, token.request, answer)
        asker = self.nodes[token.node]
        self.after(self.rng.randint(*self.delay_ms), lambda: self._fail(asker, token.number, token.life, event))

    def _fail_later(self, asker: QuorumNode, number: int, event: on.Event) -> None:
        life = asker.life
        self.after(self.rng.randint(*self.delay_ms), lambda: self._fail(asker, number, life, event))

    def _fail(self, asker: QuorumNode, number: int, life: int, event: on.Event) -> None:
        """Deliver the one outcome of a request, whichever comes first."""
        if asker.life == life and asker.waiting.pop(number, None) is not None:
            self.feed(asker.id, event, life)

    # --- questions ---

    def leader(self) -> int | None:
        """The running leader of the newest epoch."""
        best: tuple[int, int] | None = None
        for node in self.nodes.values():
            if node.quorum is not None and isinstance(node.quorum.role, Leader):
                best = max(best or (-1, -1), (node.quorum.role.epoch, node.id))
        return None if best is None else best[1]

    def running(self, ids: Iterable[int] | None = None) -> list[Quorum]:
        return [
            node.quorum
            for node in self.nodes.values()
            if node.quorum is not None and (ids is None or node.id in set(ids))
        ]

    def consistent_leader(self) -> bool:
        leader = self.leader()
        return leader is not None and all(
            quorum.role.leader == leader and quorum.leader == leader for quorum in self.running()
        )

    def any_reached(self, high_watermark: int) -> bool:
        return any(quorum.high_watermark >= high_watermark for quorum in self.running())

    def all_reached(self, high_watermark: int, ids: Iterable[int] | None = None) -> bool:
        running = self.running(ids)
        return bool(running) and all(quorum.high_watermark >= high_watermark for quorum in running)

    def most_committed(self, ids: Iterable[int] | None = None) -> int:
        return max((quorum.high_watermark for quorum in self.running(ids)), default=0)
