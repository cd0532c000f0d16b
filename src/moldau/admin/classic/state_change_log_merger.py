"""``kafka.tools.StateChangeLogMerger``, which Apache Kafka had until 4.0: its options, messages and exit codes.

What it printed is printed, in the same order of time. It understood lines of before 1.0 only (``[topic,partition]``)
and left all others out, stack traces too; here they are kept (docs/decisions/0028). Files may be packed by gzip.
"""

from __future__ import annotations

import os
import re
import sys

from moldau.admin.classic.java import JavaError
from moldau.admin.classic.options import Given, Option, java_integer
from moldau.clusterdata.state_changes.merging import merge, wanted
from moldau.clusterdata.state_changes.sources import Source

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
    given = Given(OPTIONS, arguments, common=())
    if not arguments:
        given.refuse(ABOUT)
    if given.has("logs") == given.has("logs-regex"):
        shown = f'"{given.shown("logs")}" or "{given.shown("logs-regex")}"'
        given.refuse(f"Provide arguments to exactly one of the two options {shown}")
    if given.has("partitions") and not given.has("topic"):
        topic = given.shown("topic")
        given.refuse(f'The option "{topic}" needs to be provided an argument when specifying partition ids')
    files = given.text("logs").split(",") if given.has("logs") else _matching(given.text("logs-regex"))
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
    keep = wanted(given.value("topic"), partitions, start, end)
    out = sys.stdout.buffer
    for entries in merge([Source([path], keep) for path in files]):
        out.write(b"\n".join(entries) + b"\n")
    out.flush()
    return 0


def _matching(regex: str) -> list[str]:
    """The files whose names a regular expression finds, in the folder before its last slash."""
    folder, slash, name = regex.rpartition("/")
    folder = folder if slash else "."
    try:
        pattern = re.compile(name)
    except re.error as error:
        raise JavaError("java.util.regex.PatternSyntaxException", f"{error} near index {error.pos}\n{name}") from None
    try:
        names = sorted(os.listdir(folder or "/"))
    except OSError:
        raise JavaError("java.lang.NullPointerException", None) from None
    return [path for path in (f"{folder}/{one}" for one in names if pattern.search(one)) if os.path.isfile(path)]


def _partitions(text: str | None) -> list[int]:
    try:
        return [java_integer(one) for one in (text or "").split(",")] if text is not None else []
    except ValueError as error:
        raise JavaError("java.lang.NumberFormatException", str(error)) from None


_TIME = re.compile(r"(\d+)-(\d+)-(\d+) (\d+):(\d+):(\d+),(\d+)")


def _time(given: Given, name: str) -> bytes:
    text = given.text(name).replace('"', " ").strip()
    found = _TIME.match(text)
    if found is None:
        raise JavaError("java.text.ParseException", f'Unparseable date: "{text}"')
    return b"%04d-%02d-%02d %02d:%02d:%02d,%03d" % tuple(map(int, found.groups()))
