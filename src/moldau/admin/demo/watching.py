"""Who led each partition, and why it changed: seen in the metadata as clients see it, explained by the cluster's logs.

The nodes' state-change logs (JSON lines) say why; where they are not at hand - another system's cluster - the reason is
read off the story: who was killed, and who came back.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from moldau.client.sync import Cluster

_PAUSE_S = 0.05
NOBODY = -1


class LeaderAndIsr(NamedTuple):
    """Who leads a partition at what epoch (-1: nobody), and who is in sync."""

    leader: int
    epoch: int
    isr: tuple[int, ...]


class LeaderChange(NamedTuple):
    """A partition's leader and ISR from a moment (seconds since the epoch) on. ``why`` is empty until explained."""

    at: float
    partition: int
    before: LeaderAndIsr | None
    after: LeaderAndIsr
    why: str = ""

    @property
    def leader_moved(self) -> bool:
        return self.before is None or self.before.leader != self.after.leader


class Happening(NamedTuple):
    """Something the story did: ``what`` is killed, restarted..., to a broker."""

    at: float
    what: str
    broker: int


class Watch:
    """Asks for the metadata again and again, in a thread of its own; ``changes`` are in order of time."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self.changes: list[LeaderChange] = []
        self.now: dict[int, LeaderAndIsr] = {}
        self._topic, self._bootstrap = topic, bootstrap_servers
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watch:
        self._look(Cluster(self._bootstrap))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(10)

    def leads_most(self) -> int:
        """The broker that leads most partitions; of equals the one with the lowest id."""
        counts = Counter(state.leader for state in self.now.values() if state.leader != NOBODY)
        return min(counts, key=lambda broker: (-counts[broker], broker))

    def led_by(self, broker: int) -> list[int]:
        """The partitions that a broker leads now."""
        return sorted(number for number, state in self.now.items() if state.leader == broker)

    def _run(self) -> None:
        with Cluster(self._bootstrap) as cluster:
            while not self._end.wait(_PAUSE_S):
                with contextlib.suppress(OSError):
                    self._look(cluster)

    def _look(self, cluster: Cluster) -> None:
        found = cluster.topics([self._topic]).get(self._topic)
        for number, partition in sorted(found.partitions.items()) if found is not None else ():
            after = LeaderAndIsr(partition.leader, partition.leader_epoch, tuple(sorted(partition.isr)))
            before = self.now.get(number)
            if before != after and (before is None or after.epoch >= before.epoch):
                self.now[number] = after
                self.changes.append(LeaderChange(time.time(), number, before, after))


def back_in_sync(changes: Iterable[LeaderChange], broker: int, since: float) -> float | None:
    """When the last partition took a broker back into its ISR (seconds since the epoch); None when none did."""
    joined = [
        change.at
        for change in changes
        if change.at >= since and change.before and broker in set(change.after.isr) - set(change.before.isr)
    ]
    return max(joined, default=None)


def explained(
    changes: Iterable[LeaderChange], story: Sequence[Happening], logs: Iterable[Path], topic: str
) -> list[LeaderChange]:
    """The changes with their reasons: the controller's own words, or what the story makes plain."""
    said = _said(logs, topic)
    return [change._replace(why=_why(change, said) or _plain(change, story)) for change in changes]


def _why(change: LeaderChange, said: dict[tuple[int, int, tuple[int, ...]], str]) -> str | None:
    if change.before is None:
        return None  # what we saw first was already there; the log may have more to say of it than that it was made
    return said.get((change.partition, change.after.epoch, change.after.isr))


def _said(logs: Iterable[Path], topic: str) -> dict[tuple[int, int, tuple[int, ...]], str]:
    """What the state-change logs say, by partition, leader epoch and ISR."""
    found: dict[tuple[int, int, tuple[int, ...]], str] = {}
    for path in logs:
        for line in path.read_text(errors="replace").splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue  # the last line of a node that was killed while writing it
            if event.get("event") == "partition" and event.get("topic") == topic and event.get("why"):
                key = event["partition"], event["leaderEpoch"], tuple(sorted(event["isr"]))
                found[key] = event["why"]
    return found


def _plain(change: LeaderChange, story: Sequence[Happening]) -> str:
    before, after = change.before, change.after
    if before is None:
        return "the topic was created"
    told = {happening.what: happening for happening in story if happening.at <= change.at}
    killed, restarted = told.get("killed"), told.get("restarted")
    if after.leader == NOBODY:
        return f"broker {before.leader} went away and nobody in sync could take over"
    if change.leader_moved:
        if restarted is not None and after.leader == restarted.broker:
            return f"broker {after.leader} is back in sync and is the preferred leader"
        if killed is not None and before.leader in (killed.broker, NOBODY):
            return f"broker {killed.broker} was killed; {after.leader} was in sync"
        return "another leader was elected"
    gone, back = set(before.isr) - set(after.isr), set(after.isr) - set(before.isr)
    if gone:
        return f"broker {', '.join(map(str, sorted(gone)))} fell out of sync"
    if back:
        return f"broker {', '.join(map(str, sorted(back)))} caught up"
    return "the leader's epoch moved"
