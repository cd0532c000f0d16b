"""Doing what the machine says: each effect on the log, the files, the listeners and the wire.

``EffectExecutor.carry_out`` finishes an effect at once, or returns what must be awaited before the next one. Decides
nothing; an effect that cannot be done raises and stops the node, because the machine already counts on it. Driven by
``driver.py``.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Awaitable, Iterable
from typing import Protocol

from moldau.broker.kraft.answers import to_response
from moldau.broker.kraft.batches import leader_change, snapshot, voter_change, voters_in
from moldau.broker.kraft.committed import CommittedNote, CommittedOffset, note_path
from moldau.broker.kraft.delivery import READ_BYTES, CommitDelivery
from moldau.broker.kraft.files import QuorumFiles
from moldau.broker.kraft.requests import TOPIC_ID, QuorumResponse
from moldau.broker.kraft.retention import first_kept
from moldau.broker.kraft.settings import RaftSettings
from moldau.model import Code, TopicPartition
from moldau.model.value import replace
from moldau.ports.buggify import EARLY_SNAPSHOT, SHORT_METADATA, SHORT_PIECE
from moldau.ports.pools import QUORUM, SNAPSHOTS
from moldau.quorum import ElectionState, LogView, OffsetAndEpoch, Quorum, Unattached, VoterLog, VotersAt
from moldau.quorum import effects as do
from moldau.quorum import events as on
from moldau.quorum.log_view import EpochStart
from moldau.quorum.messages import RaftRequest, RaftResponse, RaftSnapshotResponse, VoterChangeResponse
from moldau.storage import Log, LogConfig, open_alone
from moldau.storage.errors import LostRecords
from moldau.storage.names import METADATA_TOPIC
from moldau.wire.batch import headers
from moldau.wire.records.control import LeaderChangeMessage
from moldau.wire.schema import Message

logger = logging.getLogger(__name__)

PARTITION = TopicPartition(METADATA_TOPIC, 0)
Token = tuple[asyncio.Future[QuorumResponse | VoterChangeResponse], int]
"""Where the answer to a request goes, and how many bytes it may have."""
SHORT_PIECE_BYTES = 50
PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE})
"""What keeps a snapshot from being written and says nothing against the disk."""
HEAD_BYTES = 1 << 16
"""Enough for what a snapshot begins with, its voters (KIP-853)."""


class MachineDriver(Protocol):
    """What the effects need of the driver of their machine."""

    @property
    def quorum(self) -> Quorum: ...

    def feed(self, event: on.Event) -> None: ...

    def send(self, peer: int, raft_request: RaftRequest) -> None: ...

    def flush_soon(self) -> None: ...

    def fail(self, error: Exception) -> None: ...

    def address(self, id: int | None) -> tuple[str, int] | None: ...


class EffectExecutor:
    """Carries out the effects of one machine. The token of a request is a (future, wanted bytes) pair."""

    def __init__(self, settings: RaftSettings, driver: MachineDriver) -> None:
        self._settings = settings
        self._driver = driver
        self._world = settings.world
        self.log: Log
        self.delivery: CommitDelivery
        """As ``log``, from ``open`` on."""
        self.files = QuorumFiles(settings.world.disk, f"{settings.folder}/{PARTITION}")
        self.label = f"Quorum id={settings.me.id}"
        self.closed = asyncio.Event()
        self.snapshot_fetch_bytes = settings.snapshot_fetch_bytes
        self._snapshot_ms = 0
        self._snapshotting = False
        self.note: CommittedNote | None = None
        if settings.may_vote:  # who only follows holds a copy, and may follow another quorum one day
            self.note = CommittedNote(settings.world, settings.folder, settings.cluster_id, settings.me.directory_id)

    # ---- opening

    def open(self) -> tuple[Quorum, ElectionState]:
        """Open the log; return the quorum's state as log and snapshots say it, and the election state on record."""
        settings = self._settings
        self.log = self._open_log()
        snapshots = self._kept_snapshots()
        self.delivery = CommitDelivery(self.log, settings.listeners, self._world, self._driver.fail)
        self.delivery.delivered = self._snapshot_if_due
        if snapshots:
            self.delivery.snapshot(self.files.read_snapshot(snapshots[-1]), snapshots[-1])
        self._snapshot_ms = self._world.clock.monotonic_ms()
        noted = CommittedOffset(0, 0) if self.note is None else self.note.read()
        quorum = self._quorum_of(snapshots, noted.offset)
        return quorum, self._election_on_record(quorum, noted)

    def _open_log(self) -> Log:
        """The metadata log, recovered. What of it may go the quorum decides (``Trim``), and no retention by time."""
        keep: dict[str, int] = {"retention_ms": -1, "retention_bytes": -1, "file_delete_delay_ms": 0}
        config = replace(LogConfig(), segment_bytes=self._settings.segment_bytes, **keep)
        log = open_alone(self._world.disk, self._settings.folder, PARTITION, config, TOPIC_ID)
        for finding in log.findings:
            logger.warning("%s", finding)
        return log

    def _kept_snapshots(self) -> list[OffsetAndEpoch]:
        """The snapshots that this start keeps, the oldest first: those within the log, which begins at the first of
        them. The others are removed. LostRecords when the log begins later than at 0, and at no snapshot."""
        whole, findings = self.files.tidy()
        for finding in findings:
            logger.warning("%s", finding)
        points = [point for point in whole if point.offset > 0]
        if points and self._was_to_be_replaced_by(points[-1]):
            self.log.truncate_fully_at(points[-1].offset)
        kept = [point for point in points if point.offset >= self.log.log_start_offset]
        start = self.log.log_start_offset
        if start and not kept:
            raise LostRecords(f"{self.log.folder.path} starts at {start}, without the snapshot that ends there")
        self.log.flush()  # what recovery found is not known to be on disk: sync before it counts
        if kept:
            self._start_log_at(kept[0].offset)
        self.files.drop(point for point in points if point not in kept)
        return kept

    def _quorum_of(self, snapshots: list[OffsetAndEpoch], committed_before: int) -> Quorum:
        """The state with which the machine starts: what the log and these snapshots hold, and no role yet."""
        settings, end = self._settings, self.log.log_end_offset
        epochs = tuple(EpochStart(epoch, start) for epoch, start in self.log.epochs.entries() if start < end)
        start = self.log.log_start_offset
        view = LogView(start=start, end=end, flushed=end, epochs=epochs, snapshots=tuple(snapshots))
        voter_log = self._voter_log(snapshots[-1] if snapshots else None)
        return Quorum(
            me=settings.me,
            voters=voter_log.current,
            voter_log=voter_log,
            bootstrap=len(settings.bootstrap),
            role=Unattached(0),
            timing=settings.timing,
            log=view,
            committed_before=committed_before,
            flushes=settings.may_vote,
        )

    def _election_on_record(self, quorum: Quorum, noted: CommittedOffset) -> ElectionState:
        """The election state that is on file; that of the epoch of the note, without a vote, where the log was lost."""
        election = self.files.read_election()
        if not quorum.lacks_committed:
            return election
        logger.warning(
            "[%s] the metadata log in %s ends at %d, and up to %d it was committed (%s): it was lost, or a part of"
            " it. This node follows a leader that has it, and where others vote it does not stand before. If no"
            " controller has it, and the cluster is to go on without, stop this node and remove the file",
            *(self.label, self.log.folder.path, quorum.log.end, noted.offset, note_path(self._settings.folder)),
        )
        # Its votes are lost too: no leader of an older epoch is the one.
        return election if election.epoch >= noted.epoch else ElectionState(noted.epoch)

    def _voter_log(self, newest: OffsetAndEpoch | None) -> VoterLog:
        """The voter sets that the first checkpoint (made by formatting), the newest snapshot and the log after it
        decide.
        """
        found: list[VotersAt] = []
        first = OffsetAndEpoch(0, 0)
        if self._world.disk.exists(self.files.snapshot_path(first)):
            found += [VotersAt(-1, one.voters) for one in voters_in(self.files.read_snapshot(first))][-1:]
        position = self.log.log_start_offset
        if newest is not None:
            held = voters_in(self.files.read_snapshot(newest))
            found += [VotersAt(newest.offset - 1, one.voters) for one in held][-1:]
            position = newest.offset
        while position < self.log.log_end_offset:
            data = self.log.read(position, READ_BYTES, up_to=self.log.log_end_offset)
            found += voters_in(data)
            position = max(header.next_offset for _, header in headers(data))
        return VoterLog(self._settings.voters, tuple(found))

    def _was_to_be_replaced_by(self, point: OffsetAndEpoch) -> bool:
        """Whether a snapshot was installed and the log not yet restarted after it: it ends below, or has other
        records.
        """
        if point.offset > self.log.log_end_offset:
            return True
        below = [epoch for epoch, start in self.log.epochs.entries() if start < point.offset]
        return point.offset >= self.log.log_start_offset and bool(below) and below[-1] != point.epoch

    def _start_log_at(self, offset: int) -> None:
        self.log.high_watermark = max(self.log.high_watermark, offset)
        self.log.advance_log_start(offset)
        self.log.retention_pass(self._world.clock.wall_ms())
        pending_deletion, self.log.dir.pending_deletion = self.log.dir.pending_deletion, []
        for _, path in pending_deletion:
            self._world.disk.remove(path)

    def close(self) -> None:
        """End what ``open`` began: tell nothing more, note what is committed, close the log."""
        self.delivery.close()
        if self.note is not None:
            self.note.close()
        self.log.close()

    # ---- effects

    def carry_out(self, effect: do.Effect) -> Awaitable[None] | None:
        """Finish an effect; or what to await before the next."""
        match effect:
            case do.Persist(election):
                quorum = self._driver.quorum
                voters = None if quorum.kraft_version else quorum.voters.ids
                return self._world.tasks.off_loop(lambda: self.files.write_election(election, voters), QUORUM)
            case do.InstallSnapshot(point):
                return self._install(point)
            case do.SendRequest() | do.SendResponse() | do.ServeRecords() | do.ServeSnapshot():
                self._send(effect)
            case do.Commit() | do.BecameActive() | do.LostActive():
                self._deliver(effect)
            case do.WriteChunk(point, position, data):
                self.files.write_piece(point, position, data)
            case do.Sync():
                self._driver.flush_soon()
            case do.Closed():
                self.closed.set()
            case _:
                self._change_log(effect)
        return None

    def _send(self, effect: do.SendRequest | do.SendResponse | do.ServeRecords | do.ServeSnapshot) -> None:
        """Send a request to a peer, or the answer to one of its requests."""
        match effect:
            case do.SendRequest(peer, raft_request):
                self._driver.send(peer, raft_request)
            case do.SendResponse(token, answer):
                self._answer(token, answer)
            case do.ServeRecords(token, answer, begin, end):
                buggify = self._world.buggify
                length = 1 if buggify is not None and buggify(SHORT_METADATA) else token[1]
                data = self.log.read(begin, length, up_to=end)
                self._answer(token, answer._replace(data=data))
            case do.ServeSnapshot(token, answer):
                self._serve_snapshot(token, answer)

    def _change_log(
        self,
        effect: do.AppendFetched | do.AppendProposed | do.AppendLeaderChange | do.AppendVoters | do.Truncate | do.Trim,
    ) -> None:
        """Append to the metadata log, or take something away at one of its ends."""
        match effect:
            case do.AppendFetched(_, data):
                self._append(data)
            case do.AppendProposed(_, _, _, data):
                self.delivery.bytes_since_snapshot += len(data)
                self._append(data)
            case do.AppendLeaderChange():
                self._open_epoch(effect)
            case do.AppendVoters():
                self._append(voter_change(effect, self._world.clock.wall_ms()))
            case do.Truncate(end):
                self.log.truncate_to(end)
            case do.Trim(begin):
                self._trim(begin)

    def _deliver(self, effect: do.Commit | do.BecameActive | do.LostActive) -> None:
        """Tell the listeners what is committed, or whether this node decides."""
        match effect:
            case do.Commit(high_watermark):
                self.log.high_watermark = high_watermark
                self.delivery.committed(high_watermark)
                if self.note is not None:
                    quorum = self._driver.quorum
                    self.note.committed(high_watermark, quorum.role.epoch, before=quorum.committed_before)
            case do.BecameActive(epoch):
                self.delivery.became_active(epoch)
            case do.LostActive():
                self.delivery.lost_active()

    def _answer(self, token: Token, answer: RaftResponse) -> None:
        future = token[0]
        if not future.done():
            future.set_result(to_response(answer, self._driver.address(answer.leader)))

    def give_up(self, token: Token, error: Exception) -> None:
        """No answer can be made: whoever asked hears of it by the end of its connection."""
        future = token[0]
        if not future.done():
            future.set_exception(error)

    def _append(self, data: bytes) -> None:
        appended = self.log.append_follower(data, self._world.clock.wall_ms())
        assert appended.code is Code.NONE, f"the metadata log refused a batch: {appended.code.name} {appended.message}"

    def _open_epoch(self, effect: do.AppendLeaderChange) -> None:
        message = LeaderChangeMessage(
            leader_id=effect.leader,
            voters=[LeaderChangeMessage.Voter(voter_id=id) for id in effect.voters],
            granting_voters=[LeaderChangeMessage.Voter(voter_id=id) for id in effect.granted],
        )
        wall_ms = self._world.clock.wall_ms()
        self._append(leader_change(message, effect.offset, effect.epoch, wall_ms, effect.voter_set))

    # ---- snapshots

    def _serve_snapshot(self, token: Token, answer: RaftSnapshotResponse) -> None:
        size = self.files.snapshot_size(answer.snapshot)
        if answer.position >= size:
            self._answer(token, answer._replace(code=Code.POSITION_OUT_OF_RANGE, size=size))
            return
        buggify = self._world.buggify
        length = min(token[1], SHORT_PIECE_BYTES) if buggify is not None and buggify(SHORT_PIECE) else token[1]
        data = self.files.read_piece(answer.snapshot, answer.position, length)
        self._answer(token, answer._replace(size=size, length=len(data), data=data))

    def with_voters(self, answer: RaftResponse) -> RaftResponse:
        """An answer; the last piece of a snapshot with the voters of the whole, however short its pieces were."""
        if not isinstance(answer, RaftSnapshotResponse) or answer.code is not Code.NONE:
            return answer
        if answer.position + answer.length < answer.size:
            return answer
        head = answer.data
        if answer.position > 0:
            held = self.files.fetched(answer.snapshot, min(answer.position, HEAD_BYTES))
            head = held + head if answer.position < HEAD_BYTES else held
        found = voters_in(head)
        return answer._replace(voters=found[-1].voters if found else None)

    async def _install(self, point: OffsetAndEpoch) -> None:
        def name_it() -> None:
            self.files.check_part(point)
            self.files.freeze(point)

        await self._world.tasks.off_loop(name_it, SNAPSHOTS)
        self.log.truncate_fully_at(point.offset)
        self.log.flush()
        self.files.drop(older for older in self.files.snapshots() if 0 < older.offset < point.offset)
        data = await self._world.tasks.off_loop(lambda: self.files.read_snapshot(point), SNAPSHOTS)
        self.delivery.snapshot(data, point)
        self._snapshot_ms = self._world.clock.monotonic_ms()

    def _snapshot_if_due(self) -> None:
        settings, delivery = self._settings, self.delivery
        now_ms = self._world.clock.monotonic_ms()
        old = delivery.bytes_since_snapshot > 0 and now_ms - self._snapshot_ms >= settings.snapshot_interval_ms > 0
        if (buggify := self._world.buggify) is not None and delivery.bytes_since_snapshot > 0:
            old |= buggify(EARLY_SNAPSHOT)
        if (delivery.bytes_since_snapshot >= settings.snapshot_bytes or old) and not self._snapshotting:
            self._snapshotting = True
            delivery.bytes_since_snapshot = 0
            self._snapshot_ms = now_ms
            self._world.tasks.spawn(self._take_snapshot(delivery.point, settings.contents()), "metadata snapshot")

    async def _take_snapshot(self, point: OffsetAndEpoch, contents: Iterable[Message]) -> None:
        """``contents`` was taken on the loop just after ``point`` was delivered; the rest happens elsewhere."""
        wall_ms = self._world.clock.wall_ms()
        voters = self._driver.quorum.voter_log.at(point.offset)

        def write() -> None:
            self.files.write_part(point, snapshot(contents, point.epoch, wall_ms, voters))
            self.files.freeze(point)

        try:
            await self._world.tasks.off_loop(write, SNAPSHOTS)
        except OSError as error:
            if error.errno not in PASSING:
                raise
            # The log has all that would have been in it, and goes on as long as it can be written itself.
            logger.error("no snapshot of the metadata could be made, another is tried later: %s", error)
            await self._world.tasks.off_loop(lambda: self.files.forget_part(point), SNAPSHOTS)
            return
        finally:
            self._snapshotting = False
        newest, snapshots = self._driver.quorum.log.snapshot, self._driver.quorum.log.snapshots
        if newest is None or newest.offset < point.offset:  # else one was fetched meanwhile, and may be no file yet
            begin = first_kept(self._settings.retention, self.log, self.files, snapshots, self._world.clock.wall_ms())
            self._driver.feed(on.SnapshotTaken(point, begin))
            self.log.roll(now_ms=wall_ms)  # whole segments are removed, so let them end with snapshots

    def _trim(self, begin: int) -> None:
        self._start_log_at(begin)
        self.files.drop(point for point in self.files.snapshots() if 0 < point.offset < begin)
