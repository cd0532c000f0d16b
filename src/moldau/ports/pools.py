"""Which worker threads a call off the loop runs on: one pool per use, so that no use ever waits for another.

A thread that hangs in a system call of a failing disk holds up its own pool only: a vote is made durable while every
data disk hangs. ``Tasks.off_loop`` takes the pool; a world makes its threads with the first call.
"""

from __future__ import annotations

from moldau.model.named import NamedTuple


class Pool(NamedTuple):
    """Up to ``threads`` worker threads that share one queue, by name. ``is_long``: one call may take minutes, and is
    left to a thread, whatever happens."""

    name: str
    threads: int = 1
    is_long: bool = False


QUORUM = Pool("quorum")
"""The fsyncs that a vote or a commit waits for: quorum-state and the metadata log. Nothing else runs here."""
METADATA_NOTE = Pool("metadata note")
"""The note of what is committed, which nobody waits for."""
SNAPSHOTS = Pool("metadata snapshots", 3)
"""Reading and writing whole snapshots of the metadata log: long, and nobody's vote waits for it. A fetched one is not
kept waiting by the node's own, nor by one that is read."""
COMPUTING = Pool("computing", 2)
"""Bounded computation on behalf of requests: decompression, long checks."""
STOPPING = Pool("stopping")
"""The close of all logs at the end of a node."""


def log_directory(path: str) -> Pool:
    """The thread for flushes and checkpoints of one log directory."""
    return Pool(f"log directory {path}")


def flushes(path: str) -> Pool:
    """The threads that sync files of one log directory for which an answer waits (flush.messages): one that is slow
    does not hold up the others."""
    return Pool(f"flushes {path}", 4)


def segments(path: str) -> Pool:
    """The threads that make the files of new segments in one log directory: several, as one may wait for a flush of the
    same log, and no other roll is to wait for that."""
    return Pool(f"segments {path}", 4)


def reads(path: str) -> Pool:
    """The threads that read bytes of one log directory which are not in memory, for consumers that lag."""
    return Pool(f"reads {path}", 2)


def recovery(path: str, threads: int) -> Pool:
    """The threads that load the logs of one log directory (num.recovery.threads.per.data.dir)."""
    return Pool(f"recovery {path}", threads)


def folders(path: str) -> Pool:
    """The thread that makes and renames partitions' folders in one log directory, in order."""
    return Pool(f"folders {path}")


def removals(path: str) -> Pool:
    """The thread that removes files of one log directory: a large file takes seconds, and no flush waits for it."""
    return Pool(f"removals {path}")


def probe(path: str) -> Pool:
    """The thread that tests whether one log directory still answers."""
    return Pool(f"probe {path}")


def cleaner(number: int) -> Pool:
    """The ``number``-th cleaner thread (log.cleaner.threads)."""
    return Pool(f"cleaner {number}", is_long=True)
