"""Where logs begin, as the log start checkpoint of their directory records it.

A log whose first segment begins above its recorded start has lost records. For that to be true of no other log, a start
is recorded before the segments below it go, and a log that starts over says so in its folder (``restarted.py``). Read
next: ``retention.py``, ``recovery.py``.
"""

from __future__ import annotations

from collections.abc import Mapping

from moldau.model import TopicPartition


class LogStarts:
    """What the checkpoint file of one directory holds. Nothing is recorded of a log outside any ``LogDirs``."""

    __slots__ = ("is_kept", "on_file", "under_way")

    def __init__(self) -> None:
        self.is_kept = False
        self.on_file: Mapping[TopicPartition, int] = {}
        self.under_way = 0
        """Checkpoints that were taken and are not written yet."""

    def may_go(self, partition: TopicPartition, end: int) -> bool:
        """Whether a segment that ends at ``end`` may be removed from the beginning of the partition's log."""
        return not self.is_kept or self.on_file.get(partition, -1) >= end

    def may_hold(self, partition: TopicPartition) -> bool:
        """Whether the file has a start of the partition, or is about to."""
        return self.is_kept and (partition in self.on_file or self.under_way > 0)
