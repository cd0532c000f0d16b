"""``kafka.tools.StateChangeLogMerger``, which Apache Kafka had until 4.0: its options, messages and exit codes.

What it printed is printed, in the same order of time. It understood lines of before 1.0 only (``[topic,partition]``)
and left all others out, stack traces too; here they are kept (docs/decisions/0028), but for what stands before a log's
first time. Files may be packed by gzip.
"""

from __future__ import annotations

import codecs
import os
import re
import sys
from contextlib import suppress

from moldau.admin.classic.java import JavaError
from moldau.admin.classic.options import GivenOptions, Option, java_integer
from moldau.admin.classic.streams import OutputFailed, write_bytes
from moldau.clusterdata.state_changes.merging import merge, wanted
from moldau.clusterdata.state_changes.sources import LogSource, has_time, opened, some_bytes

ABOUT = "A tool for merging the log files from several brokers to reconnstruct a unified history of what happened."
_FORMAT = "java.text.SimpleDateFormat@f17a63e7"

OPTIONS = (
    Option("logs", "Comma separated list of state change logs or a regex for the log file names", "file1,file2,..."),
    Option(
        "logs-regex", "Regex to match the state change log files to be merged", "for example: /tmp/state-change.log*"
    ),
    Option("topic", "The topic whose state change logs should be merged", "topic"),
    Option(
        "partitions",
        "Comma separated list of partition ids whose state change logs should be merged",
        "0,1,2,...",
    ),
    Option(
        "start-time",
        "The earliest timestamp of state change log entries to be merged",
        f"start timestamp in the format {_FORMAT}",
        default="0000-00-00 00:00:00,000",
    ),
    Option(
        "end-time",
        "The latest timestamp of state change log entries to be merged",
        f"end timestamp in the format {_FORMAT}",
        default="9999-12-31 23:59:59,999",
    ),
)


def main(arguments: list[str]) -> int:
    """Merge what the arguments name; the exit status."""
    given = GivenOptions(OPTIONS, arguments, common=())
    if not arguments:
        given.refuse(ABOUT)
    if given.has("logs") == given.has("logs-regex"):
        shown = f'"{given.shown("logs")}" or "{given.shown("logs-regex")}"'
        given.refuse(f"Provide arguments to exactly one of the two options {shown}")
    if given.has("partitions") and not given.has("topic"):
        topic = given.shown("topic")
        given.refuse(f'The option "{topic}" needs to be provided an argument when specifying partition ids')
    files = _split(given.text("logs")) if given.has("logs") else _matching(given.text("logs-regex"))
    partitions = _partitions(given.value("partitions"))
    repeated = [str(one) for one in dict.fromkeys(partitions) if partitions.count(one) > 1]
    if repeated:
        print(f"The list of partitions contains repeated entries: {','.join(repeated)}", file=sys.stderr)
        return 1
    times = [_time(given, name) for name in ("start-time", "end-time")]
    start, end = (
        time if given.has(name) else None for name, time in zip(("start-time", "end-time"), times, strict=True)
    )
    for path in files:
        if not os.path.isfile(path):
            why = "Is a directory" if os.path.isdir(path) else "No such file or directory"
            raise JavaError("java.io.FileNotFoundException", f"{path} ({why})")
    if not all(map(_is_text, files)):
        raise JavaError("java.nio.charset.MalformedInputException", "Input length = 1")
    keep = wanted(given.value("topic"), partitions, start, end)
    with suppress(OutputFailed):  # nobody reads on
        for entries in merge([LogSource([path], keep, beheaded=True) for path in files]):
            text = b"\n".join(entries) + b"\n"
            write_bytes(text.replace(b"\r\n", b"\n") if b"\r" in text else text)
    return 0


def _split(text: str) -> list[str]:
    """The words between commas; empty ones at the end are none, as in Java."""
    words = text.split(",")
    while len(words) > 1 and not words[-1]:
        words.pop()
    return [] if len(words) == 1 and text.startswith(",") else words


def _is_text(path: str) -> bool:
    """Whether a file may be a log: it has a time near its beginning, or is text at least."""
    with opened(path) as file:
        head = some_bytes(file, path, 1 << 16)
    if has_time(head):
        return True
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def _matching(regex: str) -> list[str]:
    """The files whose names a regular expression finds, in the folder before its last slash."""
    folder, slash, name = regex.rpartition("/")
    folder = folder if slash else "."
    try:
        pattern = re.compile(name)
    except re.error as error:
        raise JavaError("java.util.regex.PatternSyntaxException", _what_is_wrong(name, error)) from None
    try:
        names = sorted(os.listdir(folder or "/"))
    except OSError:  # Java tells of it by what it then stumbles over
        why = 'Cannot invoke "Object.getClass()" because "$this" is null'
        raise JavaError("java.lang.NullPointerException", why) from None
    return [f"{folder}/{one}" for one in names if pattern.search(one)]


def _what_is_wrong(regex: str, error: re.error) -> str:
    """What Java says of a regular expression that is none: of the usual mistakes in its words."""
    at = error.pos or 0
    if error.msg.startswith(("nothing to repeat", "multiple repeat")):
        what = f"Dangling meta character '{regex[at]}'"
    elif error.msg.startswith("unterminated character set"):
        what, at = "Unclosed character class", len(regex) - 1
    elif error.msg.startswith("missing ), unterminated"):
        what, at = "Unclosed group", len(regex)
    elif error.msg.startswith("unbalanced parenthesis") and at:
        what, at = "Unmatched closing ')'", at - 1
    else:
        what = error.msg
    mark = f"\n{' ' * at}^" if at < len(regex) else ""
    return f"{what} near index {at}\n{regex}{mark}"


def _partitions(text: str | None) -> list[int]:
    try:
        return [java_integer(one) for one in _split(text)] if text is not None else []
    except ValueError as error:
        raise JavaError("java.lang.NumberFormatException", str(error)) from None


_TIME = re.compile(r"(\d+)-(\d+)-(\d+) (\d+):(\d+):(\d+),(\d+)")


def _time(given: GivenOptions, name: str) -> bytes:
    text = given.text(name).replace('"', " ").strip()
    found = _TIME.match(text)
    if found is None:
        raise JavaError("java.text.ParseException", f'Unparseable date: "{text}"')
    return b"%04d-%02d-%02d %02d:%02d:%02d,%03d" % tuple(map(int, found.groups()))
