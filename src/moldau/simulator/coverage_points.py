"""Coverage points of whole clusters: which rare situations a run has reached, read off from outside.

Production code knows nothing of them, so they cost nothing there. A point that a whole campaign of seeds never reaches
means that the drawn faults no longer lead there: the campaign fails and names it. Checks nothing. Read next:
campaign.py; coverage_points_zookeeper.py (ZooKeeper mode), machines/quorum_coverage.py (the quorum).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from moldau.broker.node import Node
from moldau.image import NO_LEADER, Delta, Partition, Recovery
from moldau.replication import effects as do
from moldau.simulator.cluster_observer import ClusterObserver
from moldau.storage import CorruptLog

FINDINGS = {
    "are cut": "a torn tail was cut",
    "though they were flushed": "flushed bytes were gone",
    "the file is ignored": "a checkpoint was ignored",
    "the epochs are read from the log again": "epochs were read from the log",
}
"""What a start logs as found -> the coverage point."""

EFFECTS: dict[type, str] = {
    do.Truncate: "a replica was cut",
    do.Restart: "a replica began anew at its leader's start",
    do.StoppedLeading: "a leader was deposed",
    do.AdvanceLogStart: "a log's start moved",
}

COVERAGE_POINTS = frozenset(
    {
        "a compaction was cut short",
        "a leader was deposed",
        "a leader was elected uncleanly",
        "a log of groups was compacted",
        "a log was compacted",
        "a level was raised",
        "a move ended",
        "a replaced controller votes again",
        "a replica was cut",
        "a torn tail was cut",
        "an ISR grew again",
        "groups were loaded",
        "nobody could lead",
        "quorum: a log was cut",
        "quorum: a log was trimmed",
        "quorum: a pre-vote was refused: the leader is heard",
        "quorum: a snapshot was installed",
        "quorum: a vote was refused",
        "quorum: a voter was added",
        "quorum: a voter was removed",
        "quorum: check quorum resigned",
        "quorum: histories parted",
        "quorum: leadership was given up",
        "some stayed eligible",
        "the last known leader led again",
        "voters went into the log",
    }
)
"""What a hundred seeds hit many times over; the rest is noted, and missed by no campaign."""


class CoveragePoints:
    """``hit``: the coverage points of a run so far."""

    def __init__(self, observer: ClusterObserver) -> None:
        self.hit: set[str] = set()
        self._observer = observer
        self._nodes: dict[int, Any] = {}
        observer.listeners.append(self.heard)

    def heard(self, id: int, node: Node | None, delta: Delta, is_news: bool) -> None:
        """A committed batch: a node applied it, or, in ZooKeeper mode, the znodes changed."""
        if node is not None:
            self.noted(id, node)
        if is_news:
            for _, _, before, after in delta.partition_changes(self._observer.image):
                if before is not None and after is not None:
                    self._changed(before, after)

    def noted(self, id: int, node: Node) -> None:
        """A node applied a batch; every step of a node's new process is followed from here on."""
        if self._nodes.get(id) is not node and node.loaded:  # its logs are loaded, and all is there
            self._nodes[id] = node
            self._follow(node)

    def _changed(self, before: Partition, after: Partition) -> None:
        if after.leader not in (before.leader, NO_LEADER) and after.leader in before.elr:
            self.hit.add("a leader came from the ELR")
        if {after.leader} - {NO_LEADER, before.leader, *before.isr, *before.elr, *before.last_known_elr}:
            self.hit.add("a leader was elected uncleanly")
        if after.leader == NO_LEADER != before.leader:
            self.hit.add("nobody could lead")
        if after.recovery == Recovery.RECOVERING != before.recovery:
            self.hit.add("the last known leader led again")
        if after.elr and not before.elr:
            self.hit.add("some stayed eligible")
        if set(after.isr) > set(before.isr):
            self.hit.add("an ISR grew again")
        if before.reassigning and not after.reassigning:
            self.hit.add("a move ended" if after.replicas != before.original_replicas else "a move was called off")

    def _follow(self, node: Node) -> None:
        replicas, act, failed = node.replicas, node.replicas.act, node.replicas.failed
        for finding in node.broker_services().log_dirs.findings:
            self.hit |= {point for text, point in FINDINGS.items() if text in finding}

        def acted(replica: Any, effects: Any) -> None:
            self.hit |= {EFFECTS[type(one)] for one in effects if type(one) in EFFECTS}
            act(replica, effects)

        def named(error: Any) -> None:
            if isinstance(error, CorruptLog):
                self.hit.add("corrupt bytes were named")
            failed(error)

        replicas.act, replicas.failed = acted, named  # type: ignore[method-assign]  # seen from outside
        coordinator = node.coordinator
        coordinator._load = self._noting(  # type: ignore[method-assign]  # seen from outside
            coordinator._load, "groups were loaded"
        )

    def _noting(self, work: Callable[[Any], Coroutine[Any, Any, None]], point: str) -> Any:
        async def noted(what: Any) -> None:
            await work(what)
            self.hit.add(point)

        return noted
