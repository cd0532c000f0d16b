"""The indexes, producer snapshots and lists of aborted transactions of a log, as `kafka-dump-log.sh` prints them."""

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from struct import Struct

from moldau.admin.classic.dump_messages import LEAST_SIZE, DumpedMessage, messages_of
from moldau.admin.classic.dump_records import batch_records
from moldau.admin.classic.dump_streams import KAFKA_EXCEPTION
from moldau.admin.classic.java import JavaError, illegal_argument
from moldau.admin.classic.java_order import hash_order, string_hash
from moldau.admin.classic.kafka_errors import PACKAGE
from moldau.admin.classic.options import java_integer
from moldau.wire.batch import HEADER_SIZE, LENGTH_OVERHEAD, BatchHeader, read_header
from moldau.wire.crc import crc32c

INT_MAX = 0x7FFFFFFF
NO_TIMESTAMP = -1
_OFFSETS, _TIMES, _ABORTED, _VERSION = Struct(">ii"), Struct(">qi"), Struct(">hqqqq"), Struct(">h")
_OFFSET_AND_LENGTH = Struct(">qi")
_ABORTED_VERSION = 0
"""The one that there is, which Kafka's tool shows whatever the file says."""
_TO_MAGIC, _FIRST_OF_BATCHES = 17, 2
"""How far Kafka looks into a batch to know its format, and from which format on it takes it for a batch."""
_CORRUPT = "org.apache.kafka.storage.internals.log.CorruptIndexException"

Batch = BatchHeader | DumpedMessage
Pairs = dict[str, list[tuple[int, int]]]


class Findings:
    """What is wrong with the files that were dumped, by their absolute paths; told at the end."""

    def __init__(self) -> None:
        self.mismatches: Pairs = {}
        self.gaps: Pairs = {}
        self.wrong_times: Pairs = {}
        self.out_of_order: Pairs = {}
        self.not_found: Pairs = {}

    def gap(self, file: Path, first: int, second: int) -> None:
        """A record is not followed by the next offset."""
        put(self.gaps, file, first, second)

    def print(self) -> None:
        """Tell them on standard error."""
        for name, pairs in _ordered(self.mismatches):
            lines = (f"  Index offset: {a}, log offset: {b}" for a, b in reversed(_sorted(pairs)))
            _say(f"Mismatches in :{name}", *lines)
        for name, pairs in _ordered(self.wrong_times):
            lines = (f"  Index timestamp: {a}, log timestamp: {b}" for a, b in pairs)
            _say(f"Found timestamp mismatch in :{name}", *lines)
        for name, pairs in _ordered(self.out_of_order):
            lines = (f"  Index timestamp: {a}, Previously indexed timestamp: {b}" for a, b in pairs)
            _say(f"Found out of order timestamp in :{name}", *lines)
        for name, pairs in _ordered(self.not_found):
            lines = (f"Indexed offset: {a}, found log offset: {b}" for a, b in pairs)
            _say(f"The following indexed offsets are not found in :{name}", *lines)
        for name, pairs in _ordered(self.gaps):
            _say(f"Non-consecutive offsets in {name}", *(f"  {a} is followed by {b}" for a, b in _sorted(pairs)))


def put(pairs: Pairs, file: Path, one: int, other: int) -> None:
    """Keep a finding about a file."""
    pairs.setdefault(str(file.absolute()), []).append((one, other))


def _sorted(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return sorted(dict(pairs).items())


def _ordered(pairs: Pairs) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    for name in hash_order(reversed(pairs), string_hash):  # computeIfAbsent puts the newest of a bucket first
        yield name, pairs[name]


def _say(*lines: str) -> None:
    print(*lines, sep="\n", file=sys.stderr)


class DumpedLogFile:
    """A log file whose batches are read when they are asked for, up to a bound. A context manager.

    Read and not mapped into memory: a broker that runs may cut the file meanwhile, and a mapping of what is gone ends
    the process (SIGBUS).
    """

    def __init__(self, file: Path, most: int = INT_MAX) -> None:
        try:
            self._file = file.open("rb", 1 << 18)
        except FileNotFoundError:
            raise JavaError("java.nio.file.NoSuchFileException", str(file)) from None
        except IsADirectoryError:
            cause = JavaError("java.io.IOException", "Is a directory")
            raise JavaError(KAFKA_EXCEPTION, str(cause), cause) from None
        self._name = str(file)
        self.length = self._file.seek(0, 2)
        self.size = min(self.length, most)

    def __enter__(self) -> DumpedLogFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def batches(self, start: int = 0, end: int = INT_MAX) -> Iterator[tuple[int, Batch, bytes]]:
        """Position, header and bytes of each whole batch between two positions; none after one that is cut short.

        A message of a format before v2 is told as one. JavaError at a length that none can have: zeros, say, that a
        crash has left.
        """
        position, end = start, min(end, self.size)
        while position + _TO_MAGIC < end:
            self._file.seek(position)
            head = self._file.read(HEADER_SIZE)
            if len(head) <= _TO_MAGIC:
                return
            offset, length = _OFFSET_AND_LENGTH.unpack_from(head)
            if length < LEAST_SIZE:
                why = f"Found record size {length} smaller than minimum record overhead ({LEAST_SIZE})"
                raise JavaError(f"{PACKAGE}CorruptRecordException", f"{why} in file {self._name}.")
            size = LENGTH_OVERHEAD + length
            if position + size > end:
                return
            data = head[:size] + self._file.read(max(size - len(head), 0))
            if len(data) < size:
                return
            magic = int.from_bytes(head[_TO_MAGIC - 1 : _TO_MAGIC], signed=True)
            if magic < _FIRST_OF_BATCHES:
                yield position, DumpedMessage(offset, data[LENGTH_OVERHEAD:]), data
            elif len(head) < HEADER_SIZE:
                raise self._no_header(position, len(head))
            else:
                yield position, read_header(head), data
            position += size

    def demand_within(self, position: int) -> None:
        """Nothing, or JavaError for a position that an index has and that the file cannot have."""
        where = f"FileRecords(size={self.size}, file={self._name}, start=0, end={INT_MAX})"
        if position < 0:
            raise illegal_argument(f"Invalid position: {position} in read from {where}")
        if position > self.size:
            raise illegal_argument(f"Slice from position {position} exceeds end position of {where}")

    def _no_header(self, position: int, found: int) -> JavaError:
        """How Kafka ends that asks for a batch's header at the end of the file."""
        channel = "file channel `sun.nio.ch.FileChannelImpl@0`"  # where Java prints an address
        text = (
            f"Failed to read `record batch header` from {channel}. Expected to read {HEADER_SIZE} bytes, but reached"
            f" end of file after reading {found} bytes. Started read from position {position}."
        )
        where = f"FileRecords(size={self.size}, file={self._name}, start=0, end={self.size})"
        cause = JavaError("java.io.EOFException", text)
        return JavaError(KAFKA_EXCEPTION, f"Failed to load record batch at position {position} from {where}", cause)


# ---- indexes


def dump_index(file: Path, sanity: bool, quiet: bool, found: Findings, most: int) -> None:
    """An index of positions: its entries, or whether it is sane, or whether the log agrees."""
    base = base_of(file)
    data = _index_bytes(file)
    with DumpedLogFile(file.parent / f"{file.name.split('.')[0]}.log") as log:
        count = len(data) // _OFFSETS.size
        if not count:
            print(f"{file} is empty.")
            return
        if sanity:
            last = _OFFSETS.unpack_from(data, (count - 1) * _OFFSETS.size)[0]
            _check(file, data, _OFFSETS.size, last, base)
            print(f"{file} passed sanity check.")
            return
        for at in range(count):
            delta, position = _OFFSETS.unpack_from(data, at * _OFFSETS.size)
            if delta == 0 and at > 0:
                return  # the zeros at the end of an index in use
            log.demand_within(position)
            header = next((header for _, header, _ in log.batches(position, position + most)), None)
            if header is None:
                raise JavaError("java.util.NoSuchElementException", None)
            if header.last_offset != base + delta:
                put(found.mismatches, file, base + delta, header.last_offset)
            if not quiet:
                print(f"offset: {base + delta} position: {position}")


def dump_time_index(file: Path, sanity: bool, quiet: bool, found: Findings) -> None:
    """An index of times, in the same way."""
    base = base_of(file)
    stem = file.name.split(".")[0]
    positions = _Positions(_index_bytes(file.parent / f"{stem}.index"), base)
    with DumpedLogFile(file.parent / f"{stem}.log") as log:
        data = _index_bytes(file)
        entries = list(_TIMES.iter_unpack(data[: len(data) // _TIMES.size * _TIMES.size]))
        if sanity:
            _check_times(file, data, entries, base)
            print(f"{file} passed sanity check.")
            return
        before, from_start = NO_TIMESTAMP, _FromStart(log)
        for number, (time, delta) in enumerate(entries):
            offset = base + delta
            if delta == 0 and number > 0:
                return
            at = positions.before(offset)
            log.demand_within(at)
            batch = from_start.reaching(offset) if at == 0 else _reaching(log.batches(at), offset)
            if batch is None or batch[0].last_offset != offset:
                put(found.not_found, file, offset, -1 if batch is None else batch[0].last_offset)
            else:
                if (newest := _newest(*batch)) != time:
                    put(found.wrong_times, file, time, newest)
                if before >= time:
                    put(found.out_of_order, file, time, before)
            if not quiet:
                print(f"timestamp: {time} offset: {offset}")
            before = time


class _Positions:
    """Where an index of positions says to begin reading, found as Kafka finds it: it halves what may be in no order."""

    def __init__(self, data: bytes, base: int) -> None:
        self._data, self._base = data, base
        self._last = len(data) // _OFFSETS.size - 1

    def before(self, offset: int) -> int:
        """The position of the entry for an offset, or of the last one before it; 0 when there is none."""
        if self._last < 0:
            return 0
        warm = max(0, self._last - _WARM_ENTRIES)
        if self._offset(warm) < offset:
            slot = self._slot(warm, self._last, offset)
        elif self._offset(0) > offset:
            return 0
        else:
            slot = self._slot(0, warm, offset)
        return int(_OFFSETS.unpack_from(self._data, slot * _OFFSETS.size)[1])

    def _slot(self, low: int, high: int, offset: int) -> int:
        while low < high:
            middle = (low + high + 1) // 2
            found = self._offset(middle)
            if found == offset:
                return middle
            low, high = (low, middle - 1) if found > offset else (middle, high)
        return low

    def _offset(self, slot: int) -> int:
        return self._base + int(_OFFSETS.unpack_from(self._data, slot * _OFFSETS.size)[0])


_WARM_ENTRIES = 8192 // _OFFSETS.size
"""How many entries at the end of an index Kafka searches first for an offset."""


_APART = 4096
"""Bytes between the positions that are kept of a log that was walked: two numbers of each take 20 MB per GiB."""


class _FromStart:
    """The batches of a log from its start, walked once however often they are asked for: the index of a log in use
    ends with zeros, and sends every search to the start.

    Of what was walked one position per ``_APART`` bytes is kept, with the largest offset before it; from there on the
    batches are read again. A position of each batch cost 76 MB per million batches.
    """

    def __init__(self, log: DumpedLogFile) -> None:
        self._log, self._left = log, log.batches()
        self._before: list[float] = []
        self._positions: list[int] = []
        self._largest = -math.inf
        self._error: JavaError | None = None

    def reaching(self, offset: int) -> tuple[Batch, bytes] | None:
        """The first batch that ends at an offset or after it."""
        if offset <= self._largest:
            at = bisect_left(self._before, offset) - 1  # the last one before which no batch reaches it
            return _reaching(self._log.batches(self._positions[at]), offset)
        if self._error is not None:
            raise self._error
        try:
            for position, header, data in self._left:
                if not self._positions or position >= self._positions[-1] + _APART:
                    self._before.append(self._largest)
                    self._positions.append(position)
                self._largest = max(self._largest, header.last_offset)
                if header.last_offset >= offset:
                    return header, data
        except JavaError as error:
            self._error = error
            raise
        return None


def _reaching(batches: Iterator[tuple[int, Batch, bytes]], offset: int) -> tuple[Batch, bytes] | None:
    return next(((header, data) for _, header, data in batches if header.last_offset >= offset), None)


def _newest(batch: Batch, data: bytes) -> int:
    """The largest time of a batch's records."""
    if isinstance(batch, DumpedMessage):
        return max(told.timestamp for told in messages_of(batch))
    return max((record.timestamp for record in batch_records(batch, data)), default=NO_TIMESTAMP)


def base_of(file: Path) -> int:
    try:
        return java_integer(file.name.split(".")[0], 64)
    except ValueError as error:
        raise JavaError("java.lang.NumberFormatException", str(error)) from None


def _index_bytes(file: Path) -> bytes:
    if file.is_dir():
        raise JavaError("java.io.FileNotFoundException", f"{file} (Is a directory)")
    return file.read_bytes() if file.exists() else b""


def _read_whole(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        raise JavaError("java.nio.file.NoSuchFileException", str(file)) from None


def _check(file: Path, data: bytes, size: int, last: int, base: int) -> None:
    if last < 0:
        name = str(file.absolute()) if size == _OFFSETS.size else f"({file.absolute()})"
        text = (
            f"Corrupt index found, index file {name} has non-zero size but the last offset is {base + last}"
            f" which is less than the base offset {base}"
        )
        raise JavaError(_CORRUPT, text)
    if len(data) % size:
        kind = "Index" if size == _OFFSETS.size else "Time index"
        text = f"{kind} file {file.absolute()} is corrupt, found {len(data)} bytes which is neither positive nor a"
        raise JavaError(_CORRUPT, f"{text} multiple of {size}")


def _check_times(file: Path, data: bytes, entries: list[tuple[int, int]], base: int) -> None:
    if entries and entries[-1][0] < entries[0][0]:
        text = (
            f"Corrupt time index found, time index file ({file.absolute()}) has non-zero size but the last timestamp is"
            f" {entries[-1][0]} which is less than the first timestamp {entries[0][0]}"
        )
        raise JavaError(_CORRUPT, text)
    _check(file, data, _TIMES.size, entries[-1][1] if entries else 0, base)


# ---- producers and transactions


def dump_producers(file: Path) -> None:
    """What a snapshot of producers says of each."""
    if file.is_dir():
        raise JavaError("java.io.IOException", "Is a directory")
    data = _read_whole(file)
    if (why := _why_no_snapshot(data)) is not None:
        sys.stdout.flush()
        print(why, file=sys.stderr)
        return
    (count,) = _COUNT.unpack_from(data, _ENTRIES_FROM)
    for at in range(count):
        id, epoch, sequence, offset, delta, stamp, coordinator, txn = _PRODUCER.unpack_from(
            data, _ENTRIES_FROM + _COUNT.size + at * _PRODUCER.size
        )
        first = "OptionalLong.empty" if txn < 0 else f"OptionalLong[{txn}]"
        line = (
            f"producerId: {id} producerEpoch: {epoch} coordinatorEpoch: {coordinator}"
            f" currentTxnFirstOffset: {first} lastTimestamp: {stamp}"
        )
        if offset >= 0:
            line += (
                f" firstSequence: {sequence_before(sequence, delta)} lastSequence: {sequence}"
                f" lastOffset: {offset} offsetDelta: {delta} timestamp: {stamp}"
            )
        print(line)


def _why_no_snapshot(data: bytes) -> str | None:
    """What Kafka's reader of snapshots says first; None of a sound one."""
    if len(data) < _VERSION.size:
        return f"{_NO_SNAPSHOT} null"
    (version,) = _VERSION.unpack_from(data)
    if version != _SNAPSHOT_VERSION:
        return f"{_NO_SNAPSHOT} Snapshot contained an unknown file version {version}"
    left = len(data) - _ENTRIES_FROM - _COUNT.size
    if left < 0:
        return f"{_NO_SNAPSHOT} null"
    (count,) = _COUNT.unpack_from(data, _ENTRIES_FROM)
    if count < 0:
        return f"{_NO_SNAPSHOT} non-nullable field producerEntries was serialized as null"
    if count > left:
        how = f"of size {count}, but there are only {left} bytes remaining."
        return f"{_NO_SNAPSHOT} Tried to allocate a collection {how}"
    if count * _PRODUCER.size > left:
        return f"{_NO_SNAPSHOT} null"
    (stored,), computed = _CRC.unpack_from(data, _VERSION.size), crc32c(data[_ENTRIES_FROM:])
    if stored != computed:
        sums = f"Stored crc: {stored}. Computed crc: {computed}"
        return f"Snapshot is corrupt (CRC is no longer valid). {sums}"
    return None


_NO_SNAPSHOT = "Snapshot failed schema validation:"
_SNAPSHOT_VERSION, _ENTRIES_FROM = 1, 6
_CRC, _COUNT, _PRODUCER = Struct(">I"), Struct(">i"), Struct(">qhiqiqiq")


def sequence_before(sequence: int, count: int) -> int:
    """A sequence number so many records earlier: before 0 comes the largest."""
    return INT_MAX - (count - sequence) + 1 if sequence < count else sequence - count


def dump_transactions(file: Path) -> None:
    """The aborted transactions of a segment."""
    if file.is_dir():
        raise JavaError("java.nio.file.FileSystemException", f"{file}: Is a directory")
    data = _read_whole(file)
    for at in range(0, len(data) - _ABORTED.size + 1, _ABORTED.size):
        _, producer, first, last, stable = _ABORTED.unpack_from(data, at)
        print(
            f"version: {_ABORTED_VERSION} producerId: {producer} firstOffset: {first} lastOffset: {last}"
            f" lastStableOffset: {stable}"
        )
