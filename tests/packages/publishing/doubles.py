"""A topic in memory that takes batches as a broker does, some of them late; and a node that writes its log."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from moldau.model import Code
from moldau.publishing.following import NAME
from moldau.publishing.records import PublishedRecord, key_of, place_in
from moldau.publishing.stream import Away
from moldau.runtime.log_writer import LogFile
from moldau.storage.producers import Producers
from moldau.wire import batch
from moldau.wire.batch import BatchHeader


class Killed(Exception):
    """The publisher was killed here."""


class MemoryTopic:
    """One partition. ``fate`` says of the next batch what becomes of it: written, written without an answer that
    arrives, not written and no answer, or under way while its publisher is killed."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.end = 0
        self.shown = 0
        """How many batches a reader sees; those behind are not committed yet."""
        self.producers = Producers()
        self.late: list[bytes] = []
        """Batches whose publisher was killed, and which the broker has not read yet."""
        self.fate = "written"
        self.ids = 0
        self.codes: list[Code] = []
        """Codes that the next batches are refused with."""
        self.is_there = True

    def producer(self) -> tuple[int, int]:
        self.ids += 1
        return self.ids, 0

    def partition_for(self, node: int) -> int:
        return 0

    def ensure(self) -> None:
        self.is_there = True

    def append(self, partition: int, data: bytes) -> Code:
        fate, self.fate = self.fate, "written"
        if not self.is_there:
            return Code.UNKNOWN_TOPIC_OR_PARTITION
        if self.codes:
            return self.codes.pop(0)
        if fate == "late":
            self.late.append(data)
            raise Killed
        if fate == "lost":
            raise Away("no answer, and nothing written")
        code = self._take(data)
        if fate == "unanswered":
            raise Away("no answer, and it is written")
        if fate == "killed":
            raise Killed
        if fate == "not shown":
            raise Killed
        self.shown = len(self.batches)  # what is acknowledged is committed, and all before it
        return code

    def arrive(self) -> None:
        """What was late is read by the broker."""
        late, self.late = self.late, []
        for data in late:
            self._take(data)

    def commit(self) -> None:
        self.shown = len(self.batches)

    def _take(self, data: bytes) -> Code:
        header: BatchHeader = batch.read_header(data)
        verdict = self.producers.check(header)
        if isinstance(verdict, Code):
            if verdict is not Code.NONE:
                return verdict
            self.producers.record(header, self.end, header.max_timestamp)
            self.batches.append(data)
            self.end += header.count
        return Code.NONE

    def newest(self, node: int) -> Iterator[PublishedRecord]:
        for data in reversed(self.batches[: self.shown]):
            header = batch.read_header(data)
            for record in reversed(list(batch.records(data))):
                place = place_in(record.headers)
                if record.key == key_of(node) and place is not None:
                    yield PublishedRecord(
                        place, record.value or b"", 0, record.timestamp,
                        (header.producer_id, header.producer_epoch), header.last_sequence,
                    )  # fmt: skip

    def values(self, node: int, *, own: bool = False) -> list[bytes]:
        """The lines of a node, or (``own``) what publishers said themselves."""
        found = []
        for data in self.batches:
            for record in batch.records(data):
                place = place_in(record.headers)
                assert place is not None
                if record.key == key_of(node) and (place.start == place.end) is own:
                    found.append(record.value or b"")
        return found

    def words(self, node: int) -> list[str]:
        return [json.loads(value)["why"] for value in self.values(node, own=True)]


class Node:
    """Writes JSON lines to its log, as a node does: by the same class, with files of a few hundred bytes."""

    def __init__(self, folder: Path, *, max_bytes: int = 400, max_files: int = 100) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = str(folder / NAME)
        self.max_bytes, self.max_files = max_bytes, max_files
        self.written: list[bytes] = []
        """All whole lines, without their ends."""
        self._half = b""
        self._number = 0
        self._others = 0
        self._file = self._open()

    def _open(self) -> LogFile:
        return LogFile(self.path, max_bytes=self.max_bytes, max_files=self.max_files)

    def write(self, count: int = 1) -> None:
        lines = [self._line() for _ in range(count)]
        data = b"".join(line + b"\n" for line in lines)
        before = Path(self.path).read_bytes() if os.path.exists(self.path) else b""
        if self._half and len(before) + len(data) > self.max_bytes:  # it stays at the end of a file that is full
            self.written += [self._half] if b"\n" in before else []  # a file without a line is none
            self._half = b""
        self.written += [self._half + lines[0], *lines[1:]]
        self._half = b""
        self._file.write(data)

    def _line(self) -> bytes:
        self._number += 1
        fact = {"time_ms": 1_795_780_000_000 + self._number, "node": 1, "topic": "ördërs", "n": self._number}
        return json.dumps(fact, ensure_ascii=False).encode()

    def killed(self) -> None:
        """While it writes a line: a part of that is there, and the next line follows at once."""
        part = self._line()[: 3 + self._number % 20]
        with open(self.path, "ab") as file:
            file.write(part)
        self._half += part
        self.start_again()

    def start_again(self) -> None:
        self._file.close()
        self._file = self._open()

    def rotated_by_others(self, *, packed: bool = False) -> None:
        """As logrotate does with dates in the names, and packs what it moved away."""
        if self._half or not os.path.getsize(self.path):
            return
        self._others += 1
        target = f"{self.path}-2026{self._others:04d}"
        os.replace(self.path, target)
        self.write()  # to the file that is made anew; nobody packs one that is written to
        if packed:
            times = os.stat(target)
            with open(target, "rb") as source, gzip.open(f"{target}.gz", "wb") as to:
                shutil.copyfileobj(source, to)
            os.utime(f"{target}.gz", ns=(times.st_atime_ns, times.st_mtime_ns))
            os.unlink(target)

    def copied_and_cut(self) -> None:
        """As logrotate does with `copytruncate`, no line being written meanwhile."""
        if self._half or not os.path.getsize(self.path):
            return
        self._others += 1
        shutil.copy2(self.path, f"{self.path}-2026{self._others:04d}")
        os.truncate(self.path, 0)

    def close(self) -> None:
        self._file.close()
