"""Figures of compaction under the names of Kafka's cleaner: what waits, what cannot be done, how the last runs went.

Read next: ``figures.py``; what they tell of: ``moldau.storage.compactions``, ``moldau.broker.replicas.cleaner``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from moldau.broker.metrics.text import Family
from moldau.model.protocol import Protocol
from moldau.storage import LogDirs

_KEEPER, _CLEANER = "kafka_log_logcleanermanager_", "kafka_log_logcleaner_"


class CleanerRun(Protocol):
    """The newest run of one cleaner thread."""

    @property
    def bytes_read(self) -> int: ...

    @property
    def bytes_written(self) -> int: ...

    @property
    def map_use(self) -> float: ...

    @property
    def took_s(self) -> float: ...


class Cleaner(Protocol):
    """A broker's cleaner threads."""

    @property
    def runs(self) -> Iterable[CleanerRun]: ...

    @property
    def since_check_ms(self) -> int: ...


def cleaner_figures(logs: LogDirs, cleaner: Cleaner) -> Iterator[Family]:
    """All families of a broker's compaction."""
    count = Family(_KEEPER + "uncleanable_partitions_count", "Logs that cannot be compacted, as their bytes are now.")
    size = Family(_KEEPER + "uncleanable_bytes", "Bytes of such logs that wait to be compacted.")
    for path, (logs_there, bytes_there) in logs.compactions.counts().items():
        count.add(logs_there, logDirectory=path)
        size.add(bytes_there, logDirectory=path)
    yield count
    yield size
    dirtiest = logs.compactions.max_dirty_ratio * 100
    yield Family(_KEEPER + "max_dirty_percent", "Of the dirtiest log, the share not yet compacted.", int(dirtiest))
    since = "Milliseconds since a cleaner thread last looked for dirty logs."
    yield Family(_KEEPER + "time_since_last_run_ms", since, cleaner.since_check_ms)
    runs = list(cleaner.runs)
    used = max((run.map_use for run in runs), default=0.0) * 100
    took = max((run.took_s for run in runs), default=0.0)
    read, written = sum(run.bytes_read for run in runs), sum(run.bytes_written for run in runs)
    kept = int(100 * written / max(read, 1))
    yield Family(_CLEANER + "max_buffer_utilization_percent", "Use of the offset map in the last runs.", int(used))
    yield Family(_CLEANER + "cleaner_recopy_percent", "Bytes that the last runs kept, of those read.", kept)
    yield Family(_CLEANER + "max_clean_time_secs", "Seconds that the longest of the last runs took.", round(took, 3))
