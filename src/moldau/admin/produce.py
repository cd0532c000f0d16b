"""``moldau produce``: writes records from standard input, a file or the command line.

A record a line, taken as they come: what is there is written when no more comes at once. Ends with how many records the
cluster took; a record that cannot be read ends it before anything behind it is written.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, BinaryIO, NoReturn, TypedDict, Unpack

import click

from moldau.admin.asking import Talk, refused
from moldau.admin.completing import topics as complete_topics
from moldau.admin.main import INTERRUPTED, fail, reason
from moldau.admin.options import SERVERS, pairs, refuse
from moldau.admin.output import note
from moldau.admin.progress import ProgressBar
from moldau.admin.rate import bytes_text
from moldau.model.counted import counted

if TYPE_CHECKING:
    from moldau.admin.record_text import RecordToWrite
    from moldau.client.feeding import TopicFeed

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS = {"all": -1, "-1": -1, "1": 1, "0": 0}
READ_BYTES = 256 << 10
LINE_BYTES_MAX = 64 << 20
LINGER_S = 0.01


class RecordOptions(TypedDict):
    """What is written, and how, as the options say it."""

    kind: str
    separator: str
    key: str | None
    headers: tuple[str, ...]
    partition: int | None
    null: str | None
    acks: str | None
    compression: str | None


class BadInputRecord(Exception):
    """Input that is no record; the text says which and why."""


@click.command()
@click.argument("topic", shell_complete=complete_topics)
@click.option(
    "-m", "--message", "messages", multiple=True, help="A value to write, instead of standard input; repeat it."
)
@click.option("-f", "--file", "path", type=click.Path(dir_okay=False), help="Read records from here.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["value", "key-value", "json", "hex", "raw"]),
    default="value",
    show_default=True,
    help="What a line is; raw: all of the input is one record.",
)
@click.option("-s", "--separator", default="\t", show_default="tab", help="Between key and value.")
@click.option("-k", "--key", help="The key of every record.")
@click.option("-H", "--header", "headers", metavar="KEY=VALUE", multiple=True, help="Of every record; repeat it.")
@click.option("-p", "--partition", type=click.IntRange(min=0), help="Write there; otherwise keys decide.")
@click.option("--null", "null", metavar="WORD", help="A value (or key) that is this is none: a tombstone.")
@click.option(
    "--acks", type=click.Choice(list(ACKS)), help="Who must have it: all in sync (default), the leader, nobody."
)
@click.option("-z", "--compression", type=click.Choice(CODECS), help="How batches are compressed (none).")
@SERVERS
def produce(
    topic: str, bootstrap: str, messages: tuple[str, ...], path: str | None, **options: Unpack[RecordOptions]
) -> None:
    """Write records to TOPIC: a line of standard input is one record.

    With acks=all each record is written once, whatever connections break. Exit 1 when any was not written.

    \b
    printf 'one\\ntwo\\n' | moldau produce orders
    moldau produce orders -m hello --key customer-7 --header source=shop
    printf '7:paid\\n' | moldau produce orders --format key-value --separator :
    moldau consume orders -o json | moldau produce orders-copy --format json
    """
    if messages and path is not None:
        refuse("--message and --file are both what to write: leave one out")
    headers: list[tuple[str, bytes | None]] = [
        (key, value.encode()) for key, value in pairs(options["headers"], "--header").items()
    ]
    read = _reader(options, headers)
    with Talk(bootstrap) as talk:
        feed = _feed(talk, topic, options)
        try:
            if messages:
                for message in messages:
                    _add(feed, read, message.encode(), options, "--message")
            else:
                _copy(talk, feed, read, options, path)
            flush(talk, feed)
        except BadInputRecord as error:
            flush(talk, feed)
            written = counted(feed.written, "record before it is", "records before it are")
            fail(f"{error}; the {written} written, nothing else is")
        except KeyboardInterrupt:
            interrupted(feed, "record", f"{feed.waiting:,} that were read are" if feed.waiting else "")
    note(f"{counted(feed.written, 'record was', 'records were')} written to {topic}.")


def _feed(talk: Talk, topic: str, options: RecordOptions) -> TopicFeed:
    from moldau.admin.client_config import BadClientConfig
    from moldau.client.feeding import FeedOptions, TopicFeed
    from moldau.wire.compression import Codec

    try:
        acks = options["acks"] or talk.config.one_of("acks", tuple(ACKS), "all")
        codec = options["compression"] or talk.config.one_of("compression.type", CODECS, "none")
        timeout_ms = talk.config.integer("request.timeout.ms", 30_000)
    except BadClientConfig as error:
        refuse(f"--command-config {error}")
    known = talk.existing([topic])[topic].partitions
    number = options["partition"]
    if number is not None and number not in known:
        fail(f"topic {topic} has no partition {number}: it has {len(known)}, 0 to {len(known) - 1}")
    settings = FeedOptions(acks=ACKS[acks], codec=Codec[codec.upper()], timeout_ms=timeout_ms)
    return TopicFeed(talk.cluster.client, topic, settings)


def _copy(
    talk: Talk, feed: TopicFeed, read: Callable[[bytes], RecordToWrite], options: RecordOptions, path: str | None
) -> None:
    """Everything of the input; what has gathered is written whenever no more comes at once."""
    try:
        source = sys.stdin.buffer if path is None else open(path, "rb")  # noqa: SIM115  # the command ends with it
    except OSError as error:
        refuse(reason(error))
    if path is None and sys.stdin.name == os.devnull:  # main.py put it there: of `< /dev/null` the name is another
        fail("standard input is closed")
    if path is None and sys.stdin.isatty():
        note("a line is a record; Ctrl-D ends")
    if options["kind"] == "raw":
        _add(feed, read, source.read(), options, "the input")
        return
    number = 0
    whole = None if path is None else os.fstat(source.fileno()).st_size or None  # of a pipe nobody knows
    with ProgressBar("written", whole, shown=bytes_text, lines=path is not None) as progress:
        for lines, read_so_far in _lines(source, lambda: flush(talk, feed)):
            for line in lines:
                number += 1
                _add(feed, read, line, options, f"line {number}")
                if feed.full:
                    flush(talk, feed)
            if path is not None:
                progress.at(read_so_far)


def _lines(source: BinaryIO, idle: Callable[[], None]) -> Iterator[tuple[list[bytes], int]]:
    """Lines without their ends, and how many bytes were read; ``idle`` is called when no more comes at once."""
    pieces: list[bytes] = []  # of the line that has no end yet; joined once, however many they are
    length = count = 0
    while True:
        if not _has_more(source):
            idle()
        chunk = source.read1(READ_BYTES)  # type: ignore[attr-defined]  # every buffered stream has it
        if not chunk:
            break
        count += len(chunk)
        head, *more = chunk.split(b"\n")
        pieces.append(head)
        length += len(head)
        lines = []
        if more:
            lines = [b"".join(pieces), *more[:-1]]
            pieces, length = [more[-1]], len(more[-1])
        if length > LINE_BYTES_MAX:
            fail(f"a line is longer than {LINE_BYTES_MAX} bytes: no record can be; --format raw takes files whole")
        yield lines, count
    if length:
        yield [b"".join(pieces)], count


def _has_more(source: BinaryIO) -> bool:
    """Whether something, or the end, can be read without waiting for long. ``read1`` leaves nothing in the buffer."""
    try:
        ready = select.poll()  # select() knows no descriptor above 1,023
        ready.register(source, select.POLLIN)
        return bool(ready.poll(LINGER_S * 1000))
    except (OSError, ValueError):  # not a file that the system knows
        return True


def _reader(options: RecordOptions, headers: list[tuple[str, bytes | None]]) -> Callable[[bytes], RecordToWrite]:
    """A function that makes a record of a line; ValueError says what is wrong with it."""
    from moldau.admin.record_text import RecordToWrite, read_json

    separator, kind = options["separator"].encode(), options["kind"]
    null = None if options["null"] is None else options["null"].encode()
    fixed = None if options["key"] is None else options["key"].encode()
    if kind == "key-value" and not separator:
        refuse("--separator is empty")
    if kind in ("key-value", "json") and fixed is not None:
        refuse(f"--key and --format {kind} both say what the key is: leave one out")

    def read(line: bytes) -> RecordToWrite:
        line = line.removesuffix(b"\r") if kind not in ("raw", "value") else line
        if kind == "json":
            found = read_json(line)
            return found._replace(headers=[*found.headers, *headers])
        key, value = fixed, line
        if kind == "hex":
            value = bytes.fromhex(line.decode("latin-1"))
        elif kind == "key-value":
            key, found_it, value = line.partition(separator)
            if not found_it:
                raise ValueError(f"there is no {options['separator']!r} between key and value")
        return RecordToWrite(None if key == null else key, None if value == null else value, headers)

    return read


def _add(
    feed: TopicFeed, read: Callable[[bytes], RecordToWrite], line: bytes, options: RecordOptions, what: str
) -> None:
    try:
        record = read(line)
        partition = options["partition"] if options["partition"] is not None else record.partition
        feed.add(record.key, record.value, record.headers, partition=partition, timestamp_ms=record.timestamp_ms)
    except KeyError:
        raise BadInputRecord(f"{what}: topic {feed.topic} has no partition {partition}") from None
    except ValueError as error:
        raise BadInputRecord(f"{what}: {error}") from None


def interrupted(feed: TopicFeed, what: str, left: str) -> NoReturn:
    """End the command: how many are written, how many may be, and which are not."""
    unsure = f", {feed.sending:,} more may be" if feed.sending else ""
    written = counted(feed.written, f"{what} is", f"{what}s are")
    fail(f"interrupted: {written} written{unsure}" + f"; {left} not" * bool(left), INTERRUPTED)


def flush(talk: Talk, feed: TopicFeed) -> None:
    """Write what has gathered; ends the command when a batch is refused."""
    from moldau.client.feeding import NotWritten

    if not feed.waiting:
        return
    try:
        talk.cluster.run(feed.flush())
    except NotWritten as error:
        text = counted(error.written, "record is", "records are")
        text += f" written, of the next {error.count:,} for {error.partition} "
        text += "nobody knows whether they are" if error.doubtful else "none is"
        refused(text, error.code, error.message)
