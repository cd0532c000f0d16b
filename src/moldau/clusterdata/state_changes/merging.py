"""State-change logs of many nodes as one, by time: every entry once, those of one log in their order, ties in the order
of the logs.

Nothing is compared entry by entry in Python: whatever lies before the time up to which every log has been read is
sorted at once, by a sort that finds the runs of each log and merges them. Memory holds a few blocks of each log.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from moldau.clusterdata.state_changes.sources import LogSource, first_time, last_time
from moldau.runtime.memory import keep_freed_buffers

_ROLLED = re.compile(r"(?:\.\d{4}-\d\d-\d\d(?:-\d\d)?)?(?:\.\d+)?(?:\.gz)?$")
_DATED = re.compile(r"\.\d{4}-\d\d-\d\d(?:-\d\d)?(?:\.gz)?$")
"""A name that tells when its file was rolled: those of one log follow one another."""
OVERLAP = timedelta(seconds=1)
"""So much a file may begin before the one ahead of it ends, of the same log: threads write their lines out of order."""
LOG_NAMES = ("state-change.log*", "stage-change.log*")
"""Names of state-change logs; Kafka 4.0 rolled them under the second by mistake."""


def merge(sources: Sequence[LogSource]) -> Iterator[list[bytes]]:
    """The entries of all logs, in lists of some thousand, ordered by time."""
    keep_freed_buffers()
    open_ = list(sources)
    while open_:
        for source in open_:
            while not source.keys and not source.at_end:
                source.more()
        until = min((source.last for source in open_ if not source.at_end), default=None) if len(open_) > 1 else None
        taken = [source.take(until) for source in open_]
        open_ = [source for source in open_ if source.keys or not source.at_end]
        if any(entries for entries, _ in taken):
            yield _sorted(taken)
        else:  # a whole block of one time: its end is in another
            for source in open_:
                if not source.at_end and source.last == until:
                    source.more()


def _sorted(taken: Sequence[tuple[list[bytes], list[bytes]]]) -> list[bytes]:
    some = [pair for pair in taken if pair[0]]
    if len(some) == 1:
        return some[0][0]
    entries = [entry for one, _ in some for entry in one]
    keys = [key for _, one in some for key in one]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    return list(map(entries.__getitem__, order))


def logs(paths: Sequence[str]) -> list[list[str]]:
    """The files of each log that paths name, the oldest first; FileNotFoundError names what is not there.

    A folder stands for the state-change logs in it and below. Files that are parts of one log
    (``state-change.log.2.gz``, ``state-change.log.2024-01-31-10``) are one.
    """
    files: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            inside = [file for name in LOG_NAMES for file in path.rglob(name) if file.is_file()]
            if not inside:
                raise FileNotFoundError(2, "no state-change.log in it or below", str(path))
            files += sorted(inside)
        elif not path.exists():
            raise FileNotFoundError(2, "No such file or directory", str(path))
        else:
            files.append(path)
    parts: dict[str, dict[str, None]] = {}
    for file in files:
        whole = _ROLLED.sub("", file.name).replace("stage-change", "state-change")
        parts.setdefault(str(file.parent / whole), {})[str(file)] = None
    return [sorted(names, key=first_time) for names in parts.values()]


def one_after_the_other(names: Sequence[str]) -> list[list[str]]:
    """The files of one log in as few lists as hold files that follow one another in time: nearly always one. Numbered
    files of the same time were copied from several nodes."""
    if len(names) == 1:
        return [list(names)]
    found: list[tuple[list[str], bytes]] = []
    for began, name in sorted((first_time(name), name) for name in names):
        ended = began if _DATED.search(name) else last_time(name)
        at = next((at for at, (_, end) in enumerate(found) if _follows(began, end)), len(found))
        earlier = found[at][0] if at < len(found) else []
        found[at : at + 1] = [([*earlier, name], max(began, ended))]
    return [one for one, _ in found]


def _follows(began: bytes, ended: bytes) -> bool:
    """Whether a file that began then goes on with one that ended then; a time that is no date tells nothing."""
    if ended <= began:
        return True
    try:
        return datetime.fromisoformat(ended.decode()) - datetime.fromisoformat(began.decode()) <= OVERLAP
    except ValueError:
        return False


def wanted(
    topic: str | None = None,
    partitions: Collection[int] = (),
    start: bytes | None = None,
    end: bytes | None = None,
) -> Callable[[bytes], bool] | None:
    """Whether an entry is of a topic (and of some of its partitions), and of a time; None when all are."""
    if topic is None and start is None and end is None:
        return None
    name = b"" if topic is None else re.escape(topic.encode())
    plain = b"" if topic is None else topic.encode()
    pattern = re.compile(
        rb"\[" + name + rb", *(\d+)\]"
        rb"|topicName='?" + name + rb"'?, partitionIndex=(\d+)"
        rb"|(?<![\w.-])" + name + rb"-(\d+)(?![\w-])"
    )
    numbers = {b"%d" % number for number in partitions}

    def of_topic(entry: bytes) -> bool:
        if plain not in entry:
            return False
        if not numbers:
            return pattern.search(entry) is not None
        return any(found[found.lastindex or 0] in numbers for found in pattern.finditer(entry))

    def keep(entry: bytes) -> bool:
        if start is not None or end is not None:
            time = _time_of(entry)
            if (start is not None and time < start) or (end is not None and time > end):
                return False
        return topic is None or of_topic(entry)

    return keep


_TIME = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}")


def _time_of(entry: bytes) -> bytes:
    if entry[:1] == b"[" and entry[20:21] == b",":
        return entry[1:24]
    found = _TIME.search(entry)
    return found[0] if found else b""
