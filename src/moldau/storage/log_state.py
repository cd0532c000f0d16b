"""What a log consists of: its segments, offsets, leader epochs and producers, and what its flushes have reached.

Decides nothing; the modules that cut, flush and clean a log work on this, and ``log.py`` calls them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING

from moldau.model import TopicPartition
from moldau.model.protocol import Protocol
from moldau.replication.epochs import EpochTable
from moldau.storage.aborted import AbortedTxn
from moldau.storage.config import LogConfig
from moldau.storage.folder import Folder, LogDir
from moldau.storage.folder_changes import FolderChange
from moldau.storage.loaded import Loaded
from moldau.storage.log_validator import LogValidator
from moldau.storage.producer_state import load_producers
from moldau.storage.producers import Producers
from moldau.storage.rolling import RollParams
from moldau.storage.segment import Segment

if TYPE_CHECKING:
    from moldau.storage.closing import Closing
    from moldau.storage.cuts import Due
    from moldau.storage.taken import Renames

_VALIDATORS_MAX = 256


class PendingSwap(Protocol):
    """A compacted segment that takes its place, or is taken back, as long as its files do not say so."""

    def undo(self) -> None:
        """The log is cut: do not put it in place, unless it is; its files are among ``taken`` from here on."""


class NewFile(Protocol):
    """The file of a new segment, which is made elsewhere (``opening.py``)."""

    segment: Segment
    error: OSError | None
    """Why it could not be made, the last time."""

    def run(self) -> None:
        """Make it, on any thread."""

    def end(self) -> None:
        """It has run, on the loop. LogError."""


class LogState(ABC):
    """A log's parts. See ``Log`` for what holds between its offsets."""

    __slots__ = (
        "_compacted", "_interval", "_log_append_time", "active", "bases", "changed", "cleaned_to", "closings", "config",
        "cuts", "dir", "epochs", "epochs_changed", "findings", "flush_messages", "flush_wanted", "folder", "held_from",
        "high_watermark", "kept_aborted", "known_producers", "last_flush_ms", "limits", "log_end_offset",
        "log_start_offset", "opening", "partition", "recovery_point", "restart_point", "restarted", "saving", "sealed",
        "segments", "swap", "taken", "topic_id_saved", "truncations", "validator",
    )  # fmt: skip

    def __init__(self, folder: Folder, partition: TopicPartition, config: LogConfig, loaded: Loaded) -> None:
        self.folder = folder
        self.dir: LogDir = folder.dir
        self.partition = partition
        self.topic_id = loaded.topic_id
        self.topic_id_saved = loaded.topic_id is not None
        self.segments: list[Segment] = loaded.segments
        self.bases = [segment.base_offset for segment in loaded.segments]
        self.active = loaded.segments[-1]
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.high_watermark = loaded.log_start_offset
        self.recovery_point = loaded.recovery_point
        self._compacted, self.restarted = loaded.compacted, loaded.restarted
        """The log started over, and what the checkpoint files have of it is outdated (``restarted.py``)."""
        self.restart_point = loaded.recovery_point
        """The recovery point that the checkpoint file holds: a restart reads the log from there."""
        self.epochs: EpochTable = loaded.epochs
        self.epochs_changed = loaded.epochs_changed
        self.known_producers: Producers | None = loaded.producers
        self.kept_aborted: list[AbortedTxn] = loaded.aborted
        """The aborted transactions that stood in the files at the start, or were known as the log was cut."""
        self.changed, self.truncations = False, 0
        """Batches were written or cut since the log was loaded or closed; how often it was cut."""
        self.sealed: list[Segment] = []
        """Segments closed since the last flush began: their last index entries are not durable."""
        self.closings: list[Closing] = []
        """What rolls have left to the next flush to write."""
        self.cuts: list[Due] = []
        """What the files do not know yet: truncations, and of a new log that it is there."""
        self.opening: NewFile | None = None
        """What makes the file of the active segment, as long as that is not there."""
        self.taken: list[Renames] = []
        """What retention took out of the log, or compaction changed in it, and is to be renamed, in this order."""
        self.findings: list[str] = []
        self.cleaned_to = -1
        self.swap: PendingSwap | None = None
        """A compacted segment that is about to take its place, or whose files are."""
        self.last_flush_ms = 0
        self.flush_wanted = self.held_from = 0
        """flush.messages wants what lies below the first to be durable, and what lies above the second waits for it."""
        self.saving = 0
        """Flushes that are under way and write the small files."""
        self.reconfigure(config)

    @property
    def topic_id(self) -> bytes | None:
        """Whose log it is, if that is known."""
        return self.folder.topic_id

    @topic_id.setter
    def topic_id(self, topic_id: bytes | None) -> None:
        self.folder.topic_id = topic_id

    def __repr__(self) -> str:
        return f"Log({self.partition} {self.log_start_offset}-{self.log_end_offset}, {len(self.segments)} segments)"

    def reconfigure(self, config: LogConfig) -> None:
        """Run under ``config`` from now on."""
        self.config = config
        self.limits = RollParams(config, self.dir.random)
        self._interval, self.flush_messages = config.index_interval_bytes, config.flush_messages
        self._log_append_time = config.log_append_time
        validator = self.dir.validators.get(config)
        if validator is None:
            if len(self.dir.validators) >= _VALIDATORS_MAX:  # logs that still use one keep it
                self.dir.validators.clear()
            validator = self.dir.validators[config] = LogValidator(config)
        self.validator = validator

    @property
    def producers(self) -> Producers:
        """Idempotent producers' state. After a truncation it is read again in slices
        (``truncation.restore_in_slices``); who needs it before has it read at once.
        """
        producers = self.known_producers
        if producers is None:
            with self.dir.offline_on_error:
                producers = self.known_producers = load_producers(self.folder, self.segments, self.log_end_offset)
        return producers

    @property
    def size(self) -> int:
        """Bytes in all segments."""
        return sum(segment.size for segment in self.segments)

    @property
    def awaits_flush(self) -> bool:
        """Whether records wait for a flush that flush.messages wants."""
        return self.flush_wanted > self.recovery_point

    @property
    def awaits_cut(self) -> bool:
        """Whether the log was cut, and somebody is cutting its files, and writing a recovery point checkpoint that says
        no more of it than is left: an append would not wait for them, and do so itself."""
        is_due = bool(self.cuts) or self.restart_point > self.recovery_point
        return is_due and self.dir.on_checkpoint_wanted is not None

    @property
    def awaits_file(self) -> bool:
        """Whether the log has rolled, and a worker still has to make the new segment's file."""
        return self.opening is not None

    @property
    def awaits_folder(self) -> bool:
        """Whether the log is new, and a worker still has to make its folder."""
        return self.awaited_folder is not None

    @property
    def awaited_folder(self) -> FolderChange | None:
        """What makes the log's folder, as long as it is not there."""
        first = self.cuts[0] if self.cuts else None
        return first if isinstance(first, FolderChange) else None

    @property
    def settled_end(self) -> int:
        """Up to where this broker may answer for its records: the log's end, or where those begin that wait for a
        flush, or for their file."""
        end = self.log_end_offset if self.flush_wanted <= self.recovery_point else self.held_from
        return end if self.opening is None else min(end, self.opening.segment.base_offset)

    def segment_at(self, offset: int) -> int:
        """The number (in ``segments``) of the segment that holds ``offset``."""
        return max(bisect_right(self.bases, offset) - 1, 0)

    def replace_segments(self, at: int, count: int, new: list[Segment]) -> None:
        """``count`` segments from the ``at``-th on give way to ``new`` ones."""
        self.segments[at : at + count] = new
        self.bases = [segment.base_offset for segment in self.segments]
        for segment, following in pairwise(self.segments):
            segment.below = following.base_offset

    @abstractmethod
    def roll(self, base_offset: int | None = None, now_ms: int = 0) -> None:
        """Close the active segment and begin another."""

    @abstractmethod
    def flush(self, up_to: int | None = None, now_ms: int = 0, *, whole: bool = False) -> None:
        """Make everything below ``up_to`` durable, here and now."""
