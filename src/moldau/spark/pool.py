"""Feeds that a worker process keeps between tasks: connections, what brokers speak, and who leads what.

Spark gives the tasks of all batches to the same few Python processes. A feed that read its range to the end is kept
for the next task with the same options; one that failed or was left in the middle is closed. Without a thread nobody
closes what is idle: it is closed when the next task looks, and ends with its process otherwise.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import NamedTuple

from moldau.spark.feed import Feed
from moldau.spark.options import Options

OpenFeed = Callable[[Options], Feed]

IDLE_MS = 300_000
_MOST = 16


class _Key(NamedTuple):
    """What two tasks must share to share a feed; the process, since a fork must not speak on its parent's sockets."""

    process: int
    open_feed: OpenFeed
    kafka: tuple[tuple[str, str], ...]
    name: str


class _Kept(NamedTuple):
    key: _Key
    feed: Feed
    until_ms: int


class FeedPool:
    """Feeds that are not in use, the one used last at the end."""

    def __init__(self, now_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000) -> None:
        self._now_ms = now_ms
        self._kept: list[_Kept] = []

    def take(self, options: Options, open_feed: OpenFeed) -> Feed:
        """A feed that was kept, or a new one."""
        self._close_idle()
        key = _key(options, open_feed)
        for kept in reversed(self._kept):
            if kept.key == key:
                self._kept.remove(kept)
                return kept.feed
        return open_feed(options)

    def give(self, options: Options, open_feed: OpenFeed, feed: Feed) -> None:
        """Keep a feed on which nothing is under way."""
        idle_ms = options.numbers.get("connections.max.idle.ms", IDLE_MS)
        self._kept.append(_Kept(_key(options, open_feed), feed, self._now_ms() + idle_ms))
        self._close_idle()

    def _close_idle(self) -> None:
        now_ms = self._now_ms()
        kept, self._kept = self._kept, []
        for index, each in enumerate(kept):
            if each.until_ms > now_ms and index >= len(kept) - _MOST:
                self._kept.append(each)
            elif each.key.process == os.getpid():
                each.feed.close()


def _key(options: Options, open_feed: OpenFeed) -> _Key:
    return _Key(os.getpid(), open_feed, tuple(sorted(options.kafka.items())), options.group_id_prefix)


POOL = FeedPool()
"""The pool of this process."""
