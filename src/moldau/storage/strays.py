"""Logs that the cluster's metadata does not know: set aside under a name that tells (``-stray``), never deleted here.

A topic was deleted, or a replica moved away, while this broker was down; or the metadata is that of another cluster, or
was lost. Nobody but an operator can tell, so the records stay on the disk, are not loaded again, and can be had back by
giving the folder its name back. When the metadata knows no topic at all, even the names stay. As Apache Kafka 3.8.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from moldau.model import TopicPartition
from moldau.model.ids import uuid_text
from moldau.storage import names
from moldau.storage.checkpoints import format_partition_metadata, says_nearly
from moldau.storage.errors import DirOffline, LogError
from moldau.storage.offset_files import OFFSET_FILES, note_offsets

if TYPE_CHECKING:
    from moldau.storage.directories import LoadedDirectories
    from moldau.storage.log import Log

_HEAD = b"version: 0\ntopic_id: "
_TORN = b"|".join((_HEAD + rb"[\w-]{0,22}", *(re.escape(_HEAD[:end]) for end in range(len(_HEAD)))))
NAMED = 10
"""So many of the logs that were set aside are named in the one line that tells of them."""


def sort_out_in_slices(
    dirs: LoadedDirectories,
    topics: Collection[bytes],
    assigned: Callable[[TopicPartition], bytes | None],
    now_ms: int,
    at_once: int,
) -> Generator[None, None, list[str]]:
    """Take out of use what does not belong here, ``at_once`` logs in one step; sentences for the operator.

    ``topics`` are the topic ids that the metadata knows, ``assigned`` tells the topic id of a partition of this broker.
    """
    left = leave_alone(dirs, topics, now_ms)
    told = []
    if left:
        told.append(
            "the metadata knows no topic at all, and there are logs here: was it lost, or is it another cluster's?"
            f" All {len(left)} logs are left as they are, and out of use, that of {left[0]} among them"
        )
    strays = []
    for partition in [one for one in dirs.unusable if one not in dirs.left_alone and assigned(one) is None]:
        with suppress(LogError):
            make_way(dirs, partition)
            strays.append(partition)
    logs = list(dirs.logs)
    for begin in range(0, len(logs), at_once):
        if begin:
            yield
        some = [partition for partition in logs[begin : begin + at_once] if partition in dirs.logs]
        wanted = {partition: id for partition in some if (id := assigned(partition)) is not None}
        strays += remove_strays(dirs, wanted, now_ms, some)
    if strays:
        told.append(_summary(strays))
    return told


def leave_alone(dirs: LoadedDirectories, topics: Collection[bytes], now_ms: int) -> list[TopicPartition]:
    """Take every log out of use and leave its folder as it is, if the metadata knows no topic at all; which. Of several
    logs of one name the others are set aside: a new log would be made in a folder that is there."""
    if topics:
        return []
    left = list(dirs.logs)
    for partition in left:
        dirs.choose(partition, dirs.logs[partition].topic_id, now_ms)
        log = dirs.logs[partition]
        dirs.left_alone.add(partition)
        with suppress(LogError):
            log.close()
        put_out_of_use(dirs, partition)
    return left


def put_out_of_use(dirs: LoadedDirectories, partition: TopicPartition) -> None:
    """Use the log no more and leave its folder as it is; the checkpoints keep what they have of it."""
    dirs.futures.forget(partition)
    log = dirs.logs.pop(partition)
    note_offsets({name: log.dir.unused.setdefault(name, {}) for name in OFFSET_FILES}, (log,))
    dirs.unusable[partition] = log.folder.path
    for segment in log.segments:
        segment.drop()


def remove_strays(
    dirs: LoadedDirectories,
    wanted: Mapping[TopicPartition, bytes],
    now_ms: int,
    among: Iterable[TopicPartition] | None = None,
) -> list[TopicPartition]:
    """Set aside each log (``among`` some) that ``wanted`` (partition to topic id) does not list with its id; which.

    A log whose folder does not say its topic id is believed if it is empty, or if it holds flushed data (a broker from
    before KIP-516 wrote it); what was never flushed may be a former topic's of the same name. One whose folder says
    nearly the wanted id is believed, and the file made again: a bit of it has changed. Where the file is damaged beyond
    that the log is left as it is, out of use.
    """
    strays = []
    for partition in list(dirs.logs) if among is None else among:
        topic_id = wanted.get(partition)
        dirs.choose(partition, topic_id, now_ms)
        log = dirs.logs[partition]
        if topic_id is None:
            strays.append(partition)
        elif log.topic_id == topic_id:
            continue
        elif _says_nearly(log, topic_id) or (log.topic_id is None and (log.recovery_point or not log.size)):
            log.topic_id, log.topic_id_saved = topic_id, False
            if log.dir.offline is None:
                with suppress(LogError), log.dir.offline_on_error:
                    log.folder.say_topic(topic_id)
        elif log.topic_id is None and not _is_torn(log.folder.damaged_topic):
            put_out_of_use(dirs, partition)
            dirs.damaged.on_found(
                f"{log.folder.path} has records, and whose they are cannot be read in {names.PARTITION_METADATA}: it is"
                f" left as it is, out of use. If they are of topic id {uuid_text(topic_id)}, write that there"
            )
        else:
            strays.append(partition)
    with suppress(DirOffline):  # whoever listens to ``on_offline`` knows; other directories are looked through
        dirs.delete_all(strays, now_ms, strays=strays)
    return strays


def _says_nearly(log: Log, topic_id: bytes) -> bool:
    """Whether the folder said this topic id before a bit or a byte of the file was damaged."""
    said = log.folder.damaged_topic if log.topic_id is None else format_partition_metadata(log.topic_id)
    return says_nearly(said, topic_id)


def _is_torn(said: bytes) -> bool:
    """Whether that much of the file is what a power cut leaves of one that was never flushed."""
    return re.fullmatch(_TORN, said.rstrip(b"\0\n")) is not None


def make_way(dirs: LoadedDirectories, partition: TopicPartition) -> None:
    """Set the folder aside in which a log lies that is not in use. LogError when it cannot be renamed."""
    path = dirs.unusable[partition]
    dir = next(dir for dir in dirs.dirs if path.startswith(f"{dir.path}/") and "/" not in path[len(dir.path) + 1 :])
    dir.ensure_online()
    stray = f"{dir.path}/{names.doomed_folder(partition, dirs.unique(), names.STRAY_FOLDER)}"
    with dir.offline_on_error:
        dir.disk.rename(path, stray)
        dir.disk.sync_dir(dir.path)
    dirs.strays.append(stray)
    for offsets in dir.unused.values():
        offsets.pop(partition, None)
    dirs.left_alone.discard(partition)
    del dirs.unusable[partition]


def _summary(strays: list[TopicPartition]) -> str:
    """One sentence for the operator."""
    some = ", ".join(map(str, strays[:NAMED])) + (", ..." if len(strays) > NAMED else "")
    return (
        f"{len(strays)} logs belong to no partition of this broker and are set aside; their folders are now called"
        f" ...{names.STRAY_FOLDER}, and nobody removes them but you: {some}"
    )
