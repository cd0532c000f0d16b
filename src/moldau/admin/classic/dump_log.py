"""``kafka-dump-log.sh``: what is in the files of a log, batch by batch and record by record. Reads files, asks nobody.

Segments and snapshots here, indexes and producer snapshots in ``dump_index``, decoders in ``dump_decoders``,
``dump_coordinators`` and ``dump_remote_log``. A file is read through a window, batch by batch.
"""

from __future__ import annotations

import sys
from pathlib import Path

from moldau.admin.classic.dump_coordinators import offsets, share_states, transaction_states
from moldau.admin.classic.dump_decoders import Decoder, by_classes, control_record, metadata, strings
from moldau.admin.classic.dump_index import (
    Batch,
    DumpedLogFile,
    Findings,
    base_of,
    dump_index,
    dump_producers,
    dump_time_index,
    dump_transactions,
)
from moldau.admin.classic.dump_messages import DumpedMessage, ShownMessage, messages_of
from moldau.admin.classic.dump_records import batch_records
from moldau.admin.classic.dump_remote_log import remote_log
from moldau.admin.classic.java import JavaError, illegal_argument
from moldau.admin.classic.java_values import java_split
from moldau.admin.classic.options import GivenOptions, Option
from moldau.admin.classic.run import help_or_version
from moldau.wire.batch import CRC_FROM, HEADER_SIZE, BatchHeader, Record
from moldau.wire.crc import crc32c
from moldau.wire.varints import long

ABOUT = (
    "This tool helps to parse a log file and dump its contents to the console, useful for debugging a seemingly"
    " corrupt log segment."
)
INT_MAX = 0x7FFFFFFF
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
STRING_DECODER = "org.apache.kafka.tools.api.StringDecoder"
_CLASS = (
    "This class should implement org.apache.kafka.tools.api.Decoder trait. Custom jar should be available in"
    " kafka/libs directory."
)

OPTIONS = (
    Option(
        "print-data-log",
        "If set, printing the messages content when dumping data logs. Automatically set if any decoder option is"
        " specified.",
    ),
    Option("verify-index-only", "If set, just verify the index log without printing its content."),
    Option(
        "index-sanity-check",
        "If set, just checks the index sanity without printing its content. This is the same check that is executed on"
        " broker startup to determine if an index needs rebuilding or not.",
    ),
    Option(
        "files", "REQUIRED: The comma separated list of data and index log files to be dumped.", "file1, file2, ..."
    ),
    Option("max-message-size", "Size of largest message.", "size", "Integer", str(5 * 1024 * 1024)),
    Option(
        "max-bytes",
        "Limit the amount of total batches read in bytes avoiding reading the whole .log file(s).",
        "size",
        "Integer",
        str(INT_MAX),
    ),
    Option(
        "deep-iteration",
        "If set, uses deep instead of shallow iteration. Automatically set if print-data-log is enabled.",
    ),
    Option(
        "value-decoder-class",
        f"If set, used to deserialize the messages. {_CLASS}",
        "",
        default=STRING_DECODER,
        optional_value=True,
    ),
    Option(
        "key-decoder-class",
        f"If set, used to deserialize the keys. {_CLASS}",
        "",
        default=STRING_DECODER,
        optional_value=True,
    ),
    Option("offsets-decoder", "If set, log data will be parsed as offset data from the __consumer_offsets topic."),
    Option(
        "transaction-log-decoder",
        "If set, log data will be parsed as transaction metadata from the __transaction_state topic.",
    ),
    Option("cluster-metadata-decoder", "If set, log data will be parsed as cluster metadata records."),
    Option(
        "remote-log-metadata-decoder",
        "If set, log data will be parsed as TopicBasedRemoteLogMetadataManager (RLMM) metadata records. Instead, the"
        " value-decoder-class option can be used if a custom RLMM implementation is configured.",
    ),
    Option(
        "share-group-state-decoder",
        "If set, log data will be parsed as share group state data from the __share_group_state topic.",
    ),
    Option("skip-record-metadata", "Skip metadata when printing records. This flag also skips control records."),
)
DECODERS: dict[str, Decoder] = {
    "offsets-decoder": offsets,
    "transaction-log-decoder": transaction_states,
    "cluster-metadata-decoder": metadata,
    "remote-log-metadata-decoder": remote_log,
    "share-group-state-decoder": share_states,
}
"""By option; of several, the first is taken."""
PRINTING = ("print-data-log", *DECODERS, "value-decoder-class", "key-decoder-class")


def main(arguments: list[str]) -> int:
    """Dump the files that the arguments name; the exit status."""
    given = GivenOptions(OPTIONS, arguments)
    help_or_version(given, ABOUT)
    given.require("files")
    decoder = next((decode for name, decode in DECODERS.items() if given.has(name)), strings)
    printed = any(given.has(name) for name in PRINTING)
    sanity, quiet = given.has("index-sanity-check"), given.has("verify-index-only")
    found = Findings()
    dump = Dump(decoder if printed else None, printed or given.has("deep-iteration"), given, found)
    for name in java_split(given.text("files"), ","):
        file = Path(name)
        shown = file if name else ""
        print(f"Dumping {shown}")
        suffix = "." + file.name.rpartition(".")[2]
        if suffix in (".log", ".checkpoint"):
            dump.log(file)
        elif suffix == ".index":
            dump_index(file, sanity, quiet, found, given.integer("max-message-size") or 0)
        elif suffix == ".timeindex":
            dump_time_index(file, sanity, quiet, found)
        elif suffix == ".snapshot":
            dump_producers(file)
        elif suffix == ".txnindex":
            dump_transactions(file)
        else:
            sys.stdout.flush()
            print(f"Ignoring unknown file {shown}", file=sys.stderr)
    sys.stdout.flush()
    found.print()
    return 0


class Dump:
    """How segments are dumped: ``decoder`` when their records are shown, ``deep`` when they are looked at."""

    def __init__(self, decoder: Decoder | None, deep: bool, given: GivenOptions, found: Findings) -> None:
        self._decoder = decoder
        self._deep = deep
        self._found = found
        self._bare = given.has("skip-record-metadata")
        self._given = given
        self._last = -1

    def log(self, file: Path) -> None:
        """Print a segment or a snapshot of the metadata log."""
        most = self._given.integer("max-bytes") or 0
        if self._decoder is None or self._decoder is strings:  # Kafka makes them if it shows records or not
            decoder = by_classes(self._given.text("key-decoder-class"), self._given.text("value-decoder-class"))
            self._decoder = self._decoder and decoder
        if file.name.endswith(".log"):
            print(f"Log starting offset: {base_of(file)}")
        elif file.name == "bootstrap.checkpoint":
            print("KRaft bootstrap snapshot")
        else:
            offset, epoch = _part(file.name, 0, 20), _part(file.name, 21, 31)
            print(f"Snapshot end offset: {offset}, epoch: {epoch}")
        with DumpedLogFile(file, most) as log:
            if most < 0:
                what = f"FileRecords(size={log.length}, file={file}, start=0, end={INT_MAX})"
                raise illegal_argument(f"Invalid size: {most} in read from {what}")
            self._last = -1
            valid = 0
            for position, header, data in log.batches():
                if isinstance(header, DumpedMessage):
                    print(f"offset: {header.last_offset}", end="")
                    print(_message_place(position, header))
                    if self._deep:
                        self._messages(file, header)
                else:
                    print(_batch(header), end="")
                    print(_place(data, position, header))
                    if self._deep:
                        self._records(file, data, header)
                valid = position + header.size
            rest = log.size - valid
            if rest > 0 and most == INT_MAX:
                print(f"Found {rest} invalid bytes at the end of {file.name}")

    def _records(self, file: Path, data: bytes, header: BatchHeader) -> None:
        for record in batch_records(header, data):
            self._follow(file, record.offset)
            if not self._bare:
                print(_metadata(header, record), end="")
            if not header.is_control:
                self._shown(record)
            elif not self._bare:
                print(control_record(record), end="")
            print()

    def _messages(self, file: Path, outer: DumpedMessage) -> None:
        for told in messages_of(outer):
            self._follow(file, told.offset)
            one = told.message
            if not self._bare:
                print(_message_metadata(outer, told), end="")
            if self._decoder is not None:
                self._shown(Record(told.offset, told.timestamp, one.key, one.value, []))
            print()

    def _follow(self, file: Path, offset: int) -> None:
        if offset != self._last + 1:  # Kafka's tells of a segment that begins above 0 as well
            self._found.gap(file, self._last, offset)
        self._last = offset

    def _shown(self, record: Record) -> None:
        if self._decoder is None:
            return
        before = "| " if self._bare else " "
        key, value = self._decoder(record)
        if key is not None:
            print(f"{before}key: {key}", end="")
            before = " "
        if value is not None:
            print(f"{before}payload: {value}", end="")


def _part(name: str, begin: int, end: int) -> int:
    """A number at its place in the name of a snapshot."""
    if len(name) < end:
        text = f"begin {begin}, end {end}, length {len(name)}"
        raise JavaError("java.lang.StringIndexOutOfBoundsException", text)
    if not name[begin:end].isdecimal():
        raise JavaError("java.lang.NumberFormatException", f'For input string: "{name[begin:end]}"')
    return int(name[begin:end])


def _codec(header: Batch) -> str:
    if header.codec >= len(CODECS):
        raise illegal_argument(f"Unknown compression type id: {header.codec}")
    return CODECS[header.codec]


def _last_sequence(header: BatchHeader) -> int:
    return -1 if header.base_sequence == -1 else sequence_after(header.base_sequence, header.last_offset_delta)


def _batch(header: BatchHeader) -> str:
    """The first part of a batch's line."""
    horizon = header.delete_horizon_ms
    shown = "OptionalLong.empty" if horizon is None else f"OptionalLong[{horizon}]"
    return (
        f"baseOffset: {header.base_offset} lastOffset: {long(header.last_offset)} count: {header.count}"
        f" baseSequence: {header.base_sequence} lastSequence: {_last_sequence(header)} producerId: {header.producer_id}"
        f" producerEpoch: {header.producer_epoch} partitionLeaderEpoch: {header.leader_epoch}"
        f" isTransactional: {_bool(header.is_transactional)} isControl: {_bool(header.is_control)}"
        f" deleteHorizonMs: {shown}"
    )


def _place(data: bytes, position: int, header: BatchHeader) -> str:
    """The rest of the line; JavaError for a codec that there is not, when the first part is printed."""
    return (
        f" position: {position} {_stamped(header)}: {header.max_timestamp} size: {header.size}"
        f" magic: {header.magic} compresscodec: {_codec(header)} crc: {header.crc}"
        f" isvalid: {_bool(_is_valid(header, data))}"
    )


def _is_valid(header: BatchHeader, data: bytes) -> bool:
    """Whether the checksum is right; Kafka asks for no format here."""
    return len(data) >= HEADER_SIZE and crc32c(memoryview(data)[CRC_FROM:]) == header.crc


def _metadata(header: BatchHeader, record: Record) -> str:
    key = -1 if record.key is None else len(record.key)
    value = -1 if record.value is None else len(record.value)
    sequence = -1
    if header.base_sequence >= 0:
        sequence = sequence_after(header.base_sequence, long(record.offset - header.base_offset))
    keys = ",".join(name for name, _ in record.headers)
    return (
        f"| offset: {record.offset} {_stamped(header)}: {record.timestamp} keySize: {key} valueSize: {value}"
        f" sequence: {sequence} headerKeys: [{keys}]"
    )


def sequence_after(sequence: int, count: int) -> int:
    """A sequence number so many records later: as Java's sums of ints wrap, and past the largest to 0."""
    if sequence > _int(INT_MAX - count):
        return _int(_int(count - _int(INT_MAX - sequence)) - 1)
    return _int(sequence + count)


def _int(value: int) -> int:
    return (value + 0x80000000 & 0xFFFFFFFF) - 0x80000000


def _message_place(position: int, message: DumpedMessage) -> str:
    """The rest of the line of a message; JavaError for a format or a codec that there is not."""
    if message.magic < 0:
        raise illegal_argument(f"Invalid magic used in LegacyRecord: {message.magic}")
    return (
        f" position: {position} {message.stamped}: {message.timestamp} size: {message.size}"
        f" magic: {message.magic} compresscodec: {_codec(message)} crc: {message.crc}"
        f" isvalid: {_bool(message.is_valid)}"
    )


def _message_metadata(outer: DumpedMessage, told: ShownMessage) -> str:
    one = told.message
    return (
        f"| offset: {told.offset} {outer.stamped}: {told.timestamp} keySize: {one.key_size}"
        f" valueSize: {one.value_size} isValid: {_bool(one.is_valid)} crc: {one.crc}"
    )


def _stamped(header: BatchHeader) -> str:
    return "LogAppendTime" if header.is_log_append_time else "CreateTime"


def _bool(value: bool) -> str:
    return "true" if value else "false"
