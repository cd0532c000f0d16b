"""Stops the nodes of a cluster: brokers first, while controllers still give them leave, then the controllers.

A broker that may not go waits for leave for as long as its configuration says, twenty seconds by default. So whoever
also votes is told to hurry, by a second SIGTERM, once no majority of voters is left to decide anything. On ZooKeeper
whoever is left is told so at once: all are to go, and none can take over what another leads.
"""

from __future__ import annotations

import contextlib
import enum
import signal
import subprocess
import time
from collections.abc import Callable, Mapping

from moldau.cluster.last_stop import LastStop, last_stop
from moldau.cluster.nodes import NodeSpec, is_alive, send, setting, wait_gone

LOOK_S = 0.01
HURRY_S = 0.3
"""Between two words to hurry: one that comes with the first SIGTERM is not told apart from it."""


class Ending(enum.Enum):
    """How a node ended; the value completes "node 1 ..."."""

    CLEAN = "stopped"
    UNCLEAN = "ended without closing its logs, which are recovered at its next start,"
    KILLED = "did not end in time and was killed"


Gone = Callable[[int, Ending], object]


def stop_nodes(
    nodes: list[NodeSpec], processes: Mapping[int, subprocess.Popen[bytes]], timeout_s: float, gone: Gone
) -> None:
    """Stop every node by controlled shutdown, within the time; whoever does not end is killed."""
    live = [node for node in nodes if is_alive(node.pid)]
    for node in live:
        _tell(node, signal.SIGCONT)  # whoever is paused may be the controller that gives leave
    deadline = time.monotonic() + timeout_s
    voters = [node for node in nodes if "controller" in node.roles]
    for group in ([node for node in live if node not in voters], [node for node in live if node in voters]):
        _stop_group(group, voters, processes, deadline, gone)


def _stop_group(
    group: list[NodeSpec],
    voters: list[NodeSpec],
    processes: Mapping[int, subprocess.Popen[bytes]],
    deadline: float,
    gone: Gone,
) -> None:
    for node in group:
        _tell(node, signal.SIGTERM)
    left, hurried_at = list(group), time.monotonic()
    while left:
        for node in [one for one in left if wait_gone(one, processes.get(one.id), 0)]:
            left.remove(node)
            gone(node.id, _ending(node))
        now = time.monotonic()
        if now > deadline:
            break
        decided_by = sum(is_alive(one.pid) for one in voters)
        if decided_by <= len(voters) // 2 and now - hurried_at > HURRY_S:
            hurried_at = now
            for node in left:
                _tell(node, signal.SIGTERM)
        time.sleep(LOOK_S)
    for node in left:
        _tell(node, signal.SIGKILL)
        wait_gone(node, processes.get(node.id), 10)
        gone(node.id, Ending.KILLED)


def _tell(node: NodeSpec, number: signal.Signals) -> None:
    if node.pid is not None:
        with contextlib.suppress(ProcessLookupError):
            send(node, number)


def _ending(node: NodeSpec) -> Ending:
    """By the marker that a broker leaves last in each log directory."""
    if not node.is_broker:
        return Ending.CLEAN
    for folder in setting(node, "log.dirs").split(","):
        with contextlib.suppress(OSError):
            if last_stop(folder.strip()) is LastStop.UNCLEAN:
                return Ending.UNCLEAN
    return Ending.CLEAN
