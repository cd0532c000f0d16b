"""One partition's log on disk: append, read, truncate, roll, flush. What a replica of a partition is made of.

Decides offsets, when a segment rolls, and that nothing half-written is ever visible. Does not decide replication (high
watermark and leader epoch are told to it), nor when to flush, clean or delete: callers drive that with a clock of
their own (``LogDirs`` for a whole broker). Neighbours: ``log_validator.py`` (what is taken), ``recovery.py`` (what a
restart finds), ``retention.py``, ``compaction.py``, ``timestamps.py``. One thread; only a ``Flush`` may run elsewhere.
"""

from __future__ import annotations

from bisect import bisect_right

from moldau.model import Code, TopicPartition
from moldau.ports.disk import FileSlice
from moldau.storage import flushing, truncation
from moldau.storage.aborted import Marker, read_marker
from moldau.storage.batch_extent import BatchExtent
from moldau.storage.config import LogConfig
from moldau.storage.errors import CorruptLog, DiskFull, LogError, OffsetOutOfRange
from moldau.storage.flush import Flush
from moldau.storage.folder import Folder, LogDir
from moldau.storage.loaded import CheckpointedLog, Loaded
from moldau.storage.log_state import LogState
from moldau.storage.log_validator import Appended, Given, InvalidAppend, take
from moldau.storage.making import Making
from moldau.storage.opening import NO_SPACE, Opening, finish
from moldau.storage.producers import BatchMetadata
from moldau.storage.recovery import load
from moldau.storage.retention import retain, take_passed
from moldau.storage.rolling import RollParams
from moldau.storage.segment import Segment
from moldau.storage.slow import run_to_end
from moldau.storage.timestamps import TimedOffset, first_since, newest
from moldau.storage.transactions import take_closing, take_roll
from moldau.wire.batch import HEADER_SIZE, LENGTH_OVERHEAD, BatchHeader, patch

Buffer = bytes | bytearray | memoryview

_MAX_RELATIVE = 0x7FFFFFFF


class Log(LogState):
    """A partition's log. ``log_start_offset`` <= ``high_watermark`` <= ``log_end_offset``, where appends go.

    ``high_watermark`` is the replica's business; it is kept here because retention, compaction and checkpoints go by
    it. ``epochs`` is the leader epoch table, shared with the replication machine.
    """

    __slots__ = ()

    @classmethod
    def create(
        cls, place: LogDir | Folder, partition: TopicPartition, topic_id: bytes, config: LogConfig, now_ms: int = 0
    ) -> Log:
        """A new, empty log: a folder and a topic id, durable with the first flush; files come with records.

        Where workers do such things the folder follows (``LogState.awaits_folder``).
        """
        folder = place if isinstance(place, Folder) else Folder(place, f"{place.path}/{partition}")
        dir = folder.dir
        dir.ensure_online()
        restarted = dir.starts.may_hold(partition)  # of another topic of that name, or from before a move
        segment = Segment.unmade(folder)
        segment.created_ms = now_ms
        loaded = Loaded(segments=[segment], topic_id=topic_id, restarted=restarted)
        log = cls(folder, partition, config, loaded)
        log.topic_id_saved = False
        log.changed = True
        making = Making(log, topic_id, marked=restarted)
        log.cuts.append(making)
        dir.change(making)
        return log

    @classmethod
    def open(
        cls, dir: LogDir, partition: TopicPartition, config: LogConfig, known: CheckpointedLog, name: str = ""
    ) -> Log:
        """The log in its folder, recovered as ``known`` demands; ``findings`` of it says what was wrong on the way."""
        dir.ensure_online()
        folder = Folder(dir, f"{dir.path}/{name or partition}")
        with dir.offline_on_error:
            loaded = load(folder, known, config.index_interval_bytes)
            log = cls(folder, partition, config, loaded)
            log.findings = loaded.findings
            return log

    # -- append -----------------------------------------------------------------------------------------------------

    def append_leader(self, records: Given, leader_epoch: int, now_ms: int, *, internal: bool = False) -> Appended:
        """Take batches from a client (or a coordinator: ``internal``), assign offsets and ``leader_epoch``, write them.

        ``records`` is patched in place when it is writable. Refusals are codes; nothing is written then.
        DirOffline, DiskFull: the disk failed, nothing of the append is visible.
        """
        if self.dir.offline is not None:
            self.dir.ensure_online()
        validated = self.validator.validate(records, now_ms, internal, self.partition)
        if isinstance(validated, InvalidAppend):
            return validated.appended(self.log_start_offset)
        data, batches = validated
        if batches[0].producer_id >= 0 or (len(batches) > 1 and any(header.producer_id >= 0 for header in batches)):
            verdict = self.producers.check_all(batches, internal)
            if isinstance(verdict, BatchMetadata):
                stamp = verdict.timestamp if self._log_append_time else -1
                return Appended(
                    Code.NONE, verdict.first_offset, verdict.last_offset, stamp, self.log_start_offset, "", True
                )
            if verdict is not Code.NONE:
                return self._out_of_sequence(verdict, batches[0])
        offset = first = self.log_end_offset
        position = 0
        extents = []
        for header in batches:
            patch(data, position, offset, leader_epoch)
            size = header.length + LENGTH_OVERHEAD
            last = offset + header.last_offset_delta
            extents.append(BatchExtent(size, offset, last, header.max_timestamp))
            position += size
            offset = last + 1
        if leader_epoch != self.epochs.latest:
            self.epochs_changed |= self.epochs.assign(leader_epoch, first)
        self._write(data, extents, now_ms)
        self._account(batches, extents, data)
        # As it was stamped when the batch was examined, which may be a while ago.
        append_time = batches[0].max_timestamp if self._log_append_time else -1
        return Appended(Code.NONE, first, offset - 1, append_time, self.log_start_offset)

    def append_follower(self, records: Buffer, now_ms: int = 0, newest_epoch: int = _MAX_RELATIVE) -> Appended:
        """Write batches as a leader sent them, up to one that is torn or of a later epoch than ``newest_epoch``.

        CORRUPT_MESSAGE for a bad checksum, OFFSET_OUT_OF_RANGE for a batch that begins before the log's end.
        """
        self.dir.ensure_online()
        # An empty log may begin inside a batch: the leader's log start was moved there by DeleteRecords.
        empty = not self.active.size and len(self.segments) == 1
        taken = take(records, self.log_end_offset, empty, newest_epoch)
        if isinstance(taken, InvalidAppend):
            return taken.appended(self.log_start_offset)
        data, batches, extents = taken
        if not extents:
            return Appended(Code.NONE, log_start_offset=self.log_start_offset)
        if self.known_producers is None and any(header.is_control for header in batches):
            self.known_producers = self.producers  # before these batches are in the log: a marker is counted once
        if extents[0].base_offset < self.log_end_offset:
            truncation.restart_at(self, extents[0].base_offset, self.log_start_offset)
        for header in batches:
            if header.leader_epoch > self.epochs.latest:
                self.epochs_changed |= self.epochs.assign(header.leader_epoch, header.base_offset)
        self._write(data, extents, now_ms)
        self._account(batches, extents, data)
        return Appended(Code.NONE, extents[0].base_offset, extents[-1].last_offset, -1, self.log_start_offset)

    def _out_of_sequence(self, code: Code, header: BatchHeader) -> Appended:
        id, epoch, sequence = header.producer_id, header.producer_epoch, header.base_sequence
        text = f"producer {id}, epoch {epoch}, sequence {sequence}: {code.name}"
        return Appended(code, log_start_offset=self.log_start_offset, message=text)

    def _write(self, data: Buffer, extents: list[BatchExtent], now_ms: int) -> None:
        """Append to the active segment, rolling first if due; all or nothing."""
        try:
            if self.cuts:
                truncation.finish(self)
            if self.restart_point > self.recovery_point:
                if self.dir.restart_points is not None:
                    self.dir.restart_points()
                self.restart_point = self.recovery_point
            active = self.active
            beyond = extents[-1].last_offset - active.base_offset > _MAX_RELATIVE
            # While its file is not there a segment grows on: by little, and not for long.
            if beyond or (self.limits.exceeded(active, len(data), extents, now_ms) and self.opening is None):
                # At the log's end, even if the batch begins later (compacted at the leader): a start can then tell
                # a segment that lost its tail. Unless that is too far away for the new segment's indexes.
                far = extents[-1].last_offset - self.log_end_offset > _MAX_RELATIVE
                self.roll(extents[0].base_offset if far else self.log_end_offset, now_ms)
                active = self.active
            if not active.size:
                active.created_ms = now_ms
                if active.file is None:
                    self._have_file_made(active)
            active.append(data, extents, self._interval)
        except OSError as error:
            raise self._failed_append(error) from error
        self.changed = True
        first, self.log_end_offset = self.log_end_offset, extents[-1].last_offset + 1
        if self.log_end_offset - self.recovery_point >= self.flush_messages:
            flushing.want(self, first, now_ms)

    def _have_file_made(self, active: Segment) -> None:
        """The first batch comes of a log that is new, or starts over: its file is made as one of a roll is."""
        wanted = self.dir.on_file_wanted
        if wanted is not None:  # else the append makes it
            active.index.shrunk = True  # the index files follow with the next save
            self.opening = Opening(self, active)
            wanted(self)

    def _account(self, batches: list[BatchHeader], extents: list[BatchExtent], data: Buffer) -> None:
        """The batches are in the log: producers are remembered from here on."""
        producers = self.known_producers
        if producers is None:
            return  # it is read from the log, which now holds these batches too
        for header, extent in zip(batches, extents, strict=True):
            if header.producer_id >= 0:
                marker = _marker(header, data, extents, extent) if header.is_control else None
                producers.record(header, extent.base_offset, header.max_timestamp, marker=marker)
        producers.end_offset = self.log_end_offset

    def _failed_append(self, error: OSError) -> LogError:
        """Cut what was half written. No space is survivable if that works; else the directory is offline."""
        if error.errno in NO_SPACE:
            try:
                if self.active.file is not None:  # else not even the first batch's file could be made
                    self.active.file.truncate(self.active.size)
            except OSError as second:
                return self.dir.fail(second)
            return DiskFull(f"no space for {self.partition} in {self.dir.path}: {error}")
        return self.dir.judge(error, self.active.path())

    def roll(self, base_offset: int | None = None, now_ms: int = 0) -> None:
        """Close the active segment and begin another at ``base_offset`` (default: the log's end)."""
        if base_offset is None:
            base_offset = self.log_end_offset
        old = self.active
        if base_offset == old.base_offset:
            return
        if self.cuts:
            truncation.finish(self)
        if self.opening is not None:
            finish(self)
        old.seal()
        self.sealed.append(old)  # its index, and what is known at its end, are written with the next flush
        if self.known_producers is not None:  # else an older snapshot and the log after it say the same
            take_roll(self, self.known_producers)
        segment = Segment(self.folder, base_offset)
        segment.created_ms = now_ms
        wanted = self.dir.on_file_wanted
        if not old.size:  # it was never made, and what is left must not look as if it had been lost
            old.open(create=True)
            wanted = None
        if wanted is None:
            segment.open(create=True)
        else:
            self.opening = Opening(self, segment)
        self.limits = RollParams(self.config, self.dir.random)
        self.folder.names.touch()
        self.segments.append(segment)
        self.bases.append(base_offset)
        old.below = base_offset
        self.active = segment
        self.dir.rolled.append(self)
        if wanted is not None:
            wanted(self)

    # -- read -------------------------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, *, up_to: int | None = None, at_least_one: bool = True) -> bytes:
        """Whole batches from the one that holds ``offset`` on, none that begins at or above ``up_to`` (default: all).

        At most ``max_bytes``, save that a larger first batch comes alone when ``at_least_one``. Never crosses a
        segment. OffsetOutOfRange outside start and end; CorruptLog names file and position; DirOffline.
        """
        with self.dir.offline_on_error:
            return bytes(self.slice(offset, max_bytes, up_to=up_to, at_least_one=at_least_one))

    def slice(self, offset: int, max_bytes: int, *, up_to: int | None, at_least_one: bool) -> bytes | FileSlice:
        """As ``read``, for bytes that go to a transport as they are: only named where it can send them unread."""
        end = self.log_end_offset
        if not self.log_start_offset <= offset <= end:
            raise OffsetOutOfRange(offset, self.log_start_offset, end)
        if up_to is None or up_to > end:
            up_to = end
        if offset >= up_to:
            return b""
        self.dir.ensure_online()
        with self.dir.offline_on_error:
            active = self.active
            if offset >= active.base_offset:
                return active.slice(active.locate(offset), max_bytes, None if up_to == end else up_to, at_least_one)
            return self._lend_older(offset, max_bytes, up_to, at_least_one)

    def _lend_older(self, offset: int, max_bytes: int, up_to: int, at_least_one: bool) -> bytes | FileSlice:
        at = max(bisect_right(self.bases, offset) - 1, 0)
        for number in range(at, len(self.segments)):
            segment = self.segments[number]
            if segment.base_offset >= up_to:
                break
            after = self.bases[number + 1] if number + 1 < len(self.bases) else self.log_end_offset
            position = segment.locate(offset)
            if position < segment.size:  # compaction may have emptied the rest of this segment
                return segment.slice(position, max_bytes, None if after <= up_to else up_to, at_least_one)
            if segment.damage:  # what is missing here was not compacted away
                raise CorruptLog(segment.path(), segment.size, segment.damage)
            if not self._may_have_gap(segment.base_offset, after):
                raise CorruptLog(segment.path(), segment.size, f"records from offset {offset} to {after} are missing")
        return b""

    def _may_have_gap(self, base: int, after: int) -> bool:
        """Whether compaction, here or at a leader, may have taken the last records of the segment from ``base`` on."""
        return self.config.compact or self._compacted or self.cleaned_to >= after or after - base > _MAX_RELATIVE

    def offset_for_timestamp(self, timestamp: int) -> TimedOffset | None:
        """The first record not older than ``timestamp`` (ms): time, offset and leader epoch; None if there is none."""
        return run_to_end(first_since(self, timestamp))

    def offset_of_max_timestamp(self) -> TimedOffset | None:
        """The first record with the largest timestamp of all (ListOffsets -3); None when no record has one."""
        return run_to_end(newest(self))

    # -- truncate ---------------------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> bool:
        """Cut the log so that nothing at or above ``offset`` is left; False when there is nothing.

        A batch that straddles ``offset`` goes whole: the log then ends where it began, and must fetch it again.
        The recovery point goes down with it, and is made durable before the next append: otherwise a restart would
        trust bytes that replaced the ones it knew.
        """
        self.dir.ensure_online()
        if offset >= self.log_end_offset:
            # A leader deposed before it appended has an epoch without records; kept, we would diverge for ever.
            self.epochs_changed |= self.epochs.truncate_from_end(self.log_end_offset)
            return False
        truncation.truncate(self, offset)
        return True

    def truncate_fully_at(self, offset: int) -> None:
        """Empty the log; it starts and ends at ``offset``."""
        self.dir.ensure_online()
        truncation.restart_at(self, offset, offset)
        self.epochs_changed |= self.epochs.clear()

    def advance_log_start(self, offset: int) -> Code:
        """DeleteRecords, or a leader's log start: records below ``offset`` are gone; at most the high watermark."""
        if offset > self.high_watermark:
            return Code.OFFSET_OUT_OF_RANGE
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.epochs_changed |= self.epochs.truncate_from_start(offset)
        return Code.NONE

    # -- cleaning ---------------------------------------------------------------------------------------------------

    def retention_pass(self, now_ms: int, at_most: int | None = None) -> int:
        """Move the log's start over the oldest segments that may go, and take away those (``at_most`` so many) below
        the start that is on the disk; how many bytes."""
        self.dir.ensure_online()
        with self.dir.offline_on_error:
            return retain(self, now_ms, at_most)

    def remove_passed(self, now_ms: int, at_most: int) -> int:
        """Take away segments (``at_most`` so many) below the log's start as it is on the disk; how many bytes."""
        self.dir.ensure_online()
        with self.dir.offline_on_error:
            return take_passed(self, now_ms, at_most)

    def expire_producers(self, now_ms: int, expiration_ms: int) -> None:
        """Forget producers that were silent for too long; those still on disk are left there."""
        if self.known_producers is not None:
            self.known_producers.expire(now_ms, expiration_ms)

    # -- durability -------------------------------------------------------------------------------------------------

    def assign_epoch(self, epoch: int, start: int) -> None:
        """This replica leads from ``epoch`` on, beginning at ``start``, even if no record follows (KAFKA-7415)."""
        self.epochs_changed |= self.epochs.assign(epoch, start)

    def begin_flush(self, up_to: int | None = None, *, whole: bool = False) -> Flush | None:
        """What must be synced so that all below ``up_to`` (default: the end) is durable; None when it already is.

        ``Flush.run`` may run off the loop; then hand it to ``end_flush``. ``whole``: with the whole index, for a stop.
        """
        return flushing.begin(self, up_to, whole=whole)

    def end_flush(self, flush: Flush) -> None:
        """The flush has run: move the recovery point. DirOffline when it failed."""
        flushing.end(self, flush)

    def flush(self, up_to: int | None = None, now_ms: int = 0, *, whole: bool = False) -> None:
        """Make everything below ``up_to`` (default: the end) durable, here and now."""
        if self.opening is not None:
            finish(self)
        flush = self.begin_flush(up_to, whole=whole)
        self.last_flush_ms = now_ms
        if flush is not None:
            flush.run()
            self.end_flush(flush)

    def close(self) -> None:
        """Flush, save what a quick start needs, and close the files; whoever uses the log opens them again."""
        if self.dir.offline is None:
            with self.dir.offline_on_error:
                # A log that never had a record has nothing that a power cut could take: it is made again from nothing.
                if self.log_end_offset or self.truncations:
                    self._save()
                for segment in self.segments:
                    if segment.file is not None:
                        segment.close()
        else:
            for segment in self.segments:
                segment.drop()

    def _save(self) -> None:
        if self.changed:
            self.active.seal()
            self.closings.append(take_closing(self, self.producers))
        self.flush(whole=self.changed)
        self.changed = False


def _marker(header: BatchHeader, data: Buffer, extents: list[BatchExtent], extent: BatchExtent) -> Marker:
    """What the control batch at ``extent`` of an append says."""
    begin = sum(before.size for before in extents[: extents.index(extent)])
    return read_marker(header, memoryview(data)[begin + HEADER_SIZE : begin + extent.size])
