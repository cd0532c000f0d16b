"""A replica whose log cannot be written any more, or not read, while its directory answers: a folder that somebody
removed, a segment that rotted.

As long as it led, no replica whose log is whole could; as long as it followed, it tried again every second, and writes
waited until it was dropped from the ISR. So it is offline until this broker is started again, as a log is that cannot
be loaded, and the controller elects others. Unless it leads and there is nobody else in the ISR: what can still be read
is worth more than nothing then. Asked by ``replicas/manager.py``, ``replicas/follow/fetcher.py`` and
``replicas/fetch/read.py``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from moldau.broker.replicas.host import ReplicaHost
from moldau.broker.replicas.replica import Replica
from moldau.model import Code
from moldau.replication.roles import Role
from moldau.storage.errors import CorruptLog, DirOffline, LogError, OffsetOutOfRange, UnusableFile
from moldau.storage.opening import UNWRITTEN_MAX
from moldau.storage.strays import put_out_of_use

if TYPE_CHECKING:
    from moldau.storage.log import Log

logger = logging.getLogger(__name__)


def check_append(replica: Replica, acks: int, *, internal: bool = False) -> Code:
    """The code with which a leader refuses a batch now, NONE when it takes it. ``internal``: of a coordinator's own.

    A log whose folder is not there yet takes nothing: clients ask again, as of who has not heard that it leads.

    A log that was cut takes nothing before its files are. A follower waits for that; of who leads by then clients ask
    again a moment later, instead of holding up the node's other partitions for as long as this one's disk takes.

    So do they of a log whose new segment's file cannot be made, or when too much waits in memory for such files.
    """
    code, log = replica.machine.check_append(acks), replica.log
    if code is Code.NONE and log.cuts and log.awaits_folder:
        # Coordinators would take that for the end of their leadership.
        return Code.KAFKA_STORAGE_ERROR if internal else Code.NOT_LEADER_OR_FOLLOWER
    if code is Code.NONE and (log.cuts or log.restart_point > log.recovery_point) and log.awaits_cut:
        assert log.dir.on_checkpoint_wanted is not None
        log.dir.on_checkpoint_wanted(log)
        code = Code.KAFKA_STORAGE_ERROR
    if code is Code.NONE and log.opening is not None and log.opening.error:
        code = Code.KAFKA_STORAGE_ERROR
    if code is Code.NONE and not internal and log.dir.unwritten >= UNWRITTEN_MAX and _needs_file(log):
        code = Code.KAFKA_STORAGE_ERROR
    return code


def _needs_file(log: Log) -> bool:
    """Whether what is appended waits in memory for a file."""
    return log.opening is not None or not log.active.size


def append_failed(replicas: ReplicaHost, replica: Replica, error: LogError) -> None:
    """An append of a leader or a follower failed, or what else changes a log: see what it costs."""
    lasts = isinstance(error, CorruptLog) or (isinstance(error, UnusableFile) and not error.passing)
    is_last = replica.machine.role is not Role.FOLLOWER and len(replica.machine.isr) < 2
    if not lasts or is_last or replicas.by_key.get(replica.key) is not replica:
        replicas.failed(error)
        return
    _go_offline(replicas, replica, error)


def not_made(replicas: ReplicaHost, replica: Replica, error: LogError) -> None:
    """The folder of a new log cannot be made, and nobody uses the log any more: the replica is offline, and the next
    change of its partition tries again."""
    if isinstance(error, DirOffline):
        replicas.failed(error)
        return
    logger.error("%s cannot be opened: %s", replica.partition, error)
    _out_of_reach(replicas, replica)


def flush_failed(replicas: ReplicaHost, log: Log, error: UnusableFile) -> None:
    """A log cannot be flushed: where the file that it is written to has no name any more, nothing of it is kept; where
    its folder is another topic's, the next start sets it aside.

    It went on in files that only this process saw, was in sync by its own word, and doctor said that all is well.
    """
    replica = replicas.by_partition.get(log.partition)
    active = log.active
    is_made = active.size and not log.awaits_file
    if replica is None or replica.log is not log:
        return
    if log.folder.is_anothers() or (is_made and not log.folder.disk.exists(active.path())):
        append_failed(replicas, replica, error)


def read_failed(replicas: ReplicaHost, replica: Replica, error: LogError, who: str = "a fetch") -> None:
    """A read from a leader's log failed, for ``who``: see what it costs.

    Every other member of the ISR has what was acknowledged, and may have it whole. What leaves the ISR with this one is
    a copy, so that it stays where writes with acks=all would be refused without it.
    """
    machine = replica.machine
    left = len(machine.isr) - 1
    if isinstance(error, OffsetOutOfRange):  # a mistake of who asked, who is told
        return
    leads = machine.role is Role.LEADER and replicas.by_key.get(replica.key) is replica
    if isinstance(error, CorruptLog) and leads and left >= max(1, machine.effective_min_isr):
        _go_offline(replicas, replica, error)
    elif isinstance(error, DirOffline):
        replicas.failed(error)
    elif replicas.by_key.get(replica.key) is replica:  # whoever waits there asks again and again: it is told once
        replicas.logs.damaged.note(replica.partition, who, error)


def _go_offline(replicas: ReplicaHost, replica: Replica, error: LogError) -> None:
    partition = replica.partition
    logger.error("%s is offline here until this broker is started again: %s", partition, error)
    put_out_of_use(replicas.logs, partition)
    _out_of_reach(replicas, replica)


def _out_of_reach(replicas: ReplicaHost, replica: Replica) -> None:
    del replicas.by_key[replica.key], replicas.by_partition[replica.partition]
    replicas.unreachable[replica.key] = replica.partition
    replicas.act(replica, replica.machine.fail())
    replica.changed()
    replicas.place(replica.key)
    replicas.on_lost()
