"""How the world fails in this package: exceptions that carry the code a client is answered with.

A refused append is a value (``Appended.code``), never one of these. Read next: ``log.py``.
"""

from __future__ import annotations

from moldau.model import Code


class LogError(Exception):
    """A read or write that cannot be done; ``code`` is what to answer."""

    code = Code.UNKNOWN_SERVER_ERROR
    passing = False
    """Whether it says something about this process only, which has too many open files."""


class OffsetOutOfRange(LogError):
    """An offset below the log's start or above its end."""

    code = Code.OFFSET_OUT_OF_RANGE

    def __init__(self, offset: int, start: int, end: int) -> None:
        super().__init__(f"offset {offset} is not within {start} and {end}")
        self.offset, self.start, self.end = offset, start, end


class CorruptLog(LogError):
    """Bytes on disk that were durable once and are not what was written: named, and never served."""

    code = Code.CORRUPT_MESSAGE

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(f"{path} is corrupt at byte {position}: {reason}")
        self.path, self.position, self.reason = path, position, reason


class OldFormat(LogError):
    """A log holds records in message format v0 or v1: it is out of use, and whole for those who read that format."""

    code = Code.KAFKA_STORAGE_ERROR

    mend = (
        "upgrade by serving it with Apache Kafka and copying its records to a new topic, or by waiting there until"
        " retention has deleted those that were written before 0.11"
    )

    def __init__(self, path: str, position: int, offset: int, format: int) -> None:
        where = f"{path}, offset {offset}, byte {position}"
        super().__init__(f"{where}: message format v{format}, and only v2 is read; {self.mend}")
        self.path, self.position, self.offset, self.format = path, position, offset, format


class LostRecords(LogError):
    """A log lacks segments that it had, at its beginning: it is out of use until an operator has decided."""

    code = Code.KAFKA_STORAGE_ERROR


class DirOffline(LogError):
    """The log directory failed (or just did): nothing in it can be read or written until the broker is restarted."""

    code = Code.KAFKA_STORAGE_ERROR

    def __init__(self, path: str, cause: object) -> None:
        super().__init__(f"log directory {path} is offline: {cause}")
        self.path = path
        self.cause = cause


class BrokerWithoutDisk(DirOffline):
    """A directory is offline without which the broker cannot go on; ``why`` says so and what to do."""

    def __init__(self, path: str, cause: object, why: str) -> None:
        super().__init__(path, cause)
        self.why = why

    def __str__(self) -> str:
        return f"{super().__str__()}. {self.why}"


class UnusableFile(LogError):
    """One file or folder cannot be opened, made or renamed, while its log directory answers: it costs its partition."""

    code = Code.KAFKA_STORAGE_ERROR


class DiskFull(LogError):
    """No space was left for an append; nothing of it is visible, and the log goes on once there is space again."""

    code = Code.KAFKA_STORAGE_ERROR


class BrokenFile(LogError):
    """A checkpoint, snapshot or metadata file that does not parse; the caller rebuilds or ignores it."""


class NoFile(BrokenFile):
    """What stood in the place of a file was none, a folder say, and has another name now."""
