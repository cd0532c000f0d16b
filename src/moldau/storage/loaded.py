"""What is known of a log before it is loaded, and its parts once it is. Read next: ``recovery.py``."""

from __future__ import annotations

from moldau.model.named import NamedTuple
from moldau.model.value import field, value
from moldau.replication.epochs import EpochTable
from moldau.storage.aborted import AbortedTxn
from moldau.storage.producers import Producers
from moldau.storage.segment import Segment


class CheckpointedLog(NamedTuple):
    """What the log directory's checkpoints say of a log before it is loaded.

    ``recovery_point`` is None when the file that would tell was lost: any part of the log may be durable then. So is
    ``log_start_offset`` when the file has none of this log.
    """

    clean: bool = False
    recovery_point: int | None = 0
    log_start_offset: int | None = None
    compacted: bool = False
    """Whether it was compacted, by the checkpoint or by its settings, or there is no telling."""


@value(frozen=False, kw_only=True)
class Loaded:
    """A log's parts as loaded. ``producers`` None: they have yet to be read, from more than what was recovered."""

    segments: list[Segment]
    log_start_offset: int = 0
    log_end_offset: int = 0
    recovery_point: int = 0
    epochs: EpochTable = field(default_factory=EpochTable)
    epochs_changed: bool = False
    producers: Producers | None = field(default_factory=Producers)
    aborted: list[AbortedTxn] = field(default_factory=list)
    """The aborted transactions that the files name."""
    topic_id: bytes | None = None
    findings: list[str] = field(default_factory=list)
    restarted: bool = False
    compacted: bool = False
    """As ``CheckpointedLog`` says it."""
    lost: bool = False
    """Records are missing that a clean stop vouched for."""
