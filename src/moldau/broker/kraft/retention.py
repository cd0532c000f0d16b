"""How much of the metadata log, and which snapshots, stay: metadata.max.retention.bytes and metadata.max.retention.ms.

Looked at whenever a snapshot was taken. Between two snapshots all goes or all stays, the oldest first, and the log
begins where a snapshot ends, so that whoever needs records that are gone finds a snapshot instead (law R7). The two
newest snapshots stay whatever they take, and the log from the older of them on: a follower that is a little behind
needs none. Names what may go; the quorum's machine lets it go (``moldau.quorum.step``). Source: KIP-630.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from moldau.broker.kraft.files import QuorumFiles
from moldau.model.named import NamedTuple
from moldau.quorum import OffsetAndEpoch
from moldau.storage import Log


class Retention(NamedTuple):
    """Limits in bytes and ms; a negative one is none."""

    bytes: int = 104_857_600  # metadata.max.retention.bytes
    ms: int = 604_800_000  # metadata.max.retention.ms


def first_kept(
    retention: Retention, log: Log, files: QuorumFiles, snapshots: Sequence[OffsetAndEpoch], now_ms: int
) -> int:
    """The offset at which the log may begin. ``snapshots``: those before the newest, oldest first; ``now_ms``: of the
    wall clock."""
    begin = log.log_start_offset
    for at, point in enumerate(snapshots):
        if point.offset > begin:
            oldest = snapshots[max(at - 1, 0)]
            much = 0 <= retention.bytes < _bytes_from(begin, log, files, snapshots)
            old = 0 <= retention.ms < now_ms - files.snapshot_ms(oldest)
            if not (much or old):
                break
            begin = point.offset
    return begin


def _bytes_from(begin: int, log: Log, files: QuorumFiles, snapshots: Sequence[OffsetAndEpoch]) -> int:
    """What the log and the snapshots from ``begin`` on take. A segment goes only as a whole."""
    gone = sum(one.size for one, after in pairwise(log.segments) if after.base_offset <= begin)
    return log.size - gone + sum(files.snapshot_size(point) for point in snapshots if point.offset >= begin)
