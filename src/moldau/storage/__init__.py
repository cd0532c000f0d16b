"""Logs on disk in Kafka's own format: segments, indexes, checkpoints, recovery, retention, compaction.

Everything is done through ``moldau.ports.Disk``, so the simulator can lose, tear and refuse what it likes.
Start reading at ``log.py`` (one partition) or ``log_dirs.py`` (a broker's log.dirs).
"""

from moldau.storage.config import LogConfig
from moldau.storage.errors import CorruptLog, DirOffline, DiskFull, LogError, OffsetOutOfRange
from moldau.storage.folder import LogDir, OpenFiles
from moldau.storage.log import Log
from moldau.storage.log_dirs import LogDirs, open_alone
from moldau.storage.log_validator import Appended, Given, ValidatedBatches

__all__ = [
    "Appended", "CorruptLog", "DirOffline", "DiskFull", "Given", "Log", "LogConfig", "LogDir", "LogDirs",
    "LogError", "OffsetOutOfRange", "OpenFiles", "ValidatedBatches", "open_alone",
]  # fmt: skip
