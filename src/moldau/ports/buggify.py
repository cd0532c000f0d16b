"""Buggify points: what production code may do at any time and hardly ever does, named so that a test can ask.

``World.buggify`` is None in production: a point costs one look-up and one comparison, and is never taken. The simulator
gives a ``Buggify`` that returns True now and then, by the run's seed. The protocol allows every point in every state of
the cluster: whoever adds one says why in ``BUGGIFY_POINTS``. A campaign of seeds that never takes a point fails.
Source: FoundationDB's Buggify. Read next: simulator/buggify.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

Buggify = Callable[[str], bool]
"""Whether to take a way now."""

SHORT_FETCH = "short fetch"
EMPTY_FETCH = "empty fetch"
LOST_SESSION = "lost fetch session"
REFUSED_PRODUCE = "refused produce"
UNKNOWN_COORDINATOR = "unknown coordinator"
LOADING_COORDINATOR = "loading coordinator"
CLOSED_CONNECTION = "closed connection"
UNREACHED_CONTROLLER = "unreached controller"
LATE_HEARTBEAT = "late heartbeat"
UNHEARD_REGISTRATION = "unheard registration"
LATE_ISR = "late ISR"
UNHEARD_ISR = "unheard ISR"
EARLY_ROLL = "early roll"
LATE_FLUSH = "late flush"
LATE_CHECKPOINT = "late checkpoint"
LATE_DELIVERY = "late delivery"
EARLY_SNAPSHOT = "early snapshot"
SHORT_METADATA = "short metadata fetch"
SHORT_PIECE = "short piece of a snapshot"
UNHEARD_ANSWER = "unheard answer of a broker"

BUGGIFY_POINTS: Mapping[str, tuple[str, str]] = {
    SHORT_FETCH: ("broker/api/k01_fetch.py", "a fetch is answered with one batch: sizes asked for are limits (KIP-74)"),
    EMPTY_FETCH: ("broker/api/k01_fetch.py", "a fetch does not wait: max_wait_ms is a limit too (decision 9)"),
    LOST_SESSION: (
        "broker/replicas/fetch/sessions.py",
        "a fetch session is evicted early: a broker may at any time (KIP-227)",
    ),
    REFUSED_PRODUCE: (
        "broker/api/k00_produce.py",
        "a produce is refused as by a leader just deposed: nothing is appended, the client asks again",
    ),
    UNKNOWN_COORDINATOR: (
        "broker/api/k10_find_coordinator.py",
        "no coordinator is known: as on a broker whose image is a moment behind",
    ),
    LOADING_COORDINATOR: (
        "broker/groups/coordinator.py",
        "a group is loading, before anything was done: clients ask again",
    ),
    CLOSED_CONNECTION: (
        "broker/network/connection.py",
        "a connection ends after an answer: networks and idle limits do that",
    ),
    UNREACHED_CONTROLLER: (
        "broker/controller/channel.py",
        "the controller is not reached: nothing was asked, the asker copes",
    ),
    LATE_HEARTBEAT: ("broker/lifecycle.py", "a heartbeat is left out: a session is several of them long"),
    UNHEARD_REGISTRATION: (
        "broker/lifecycle.py",
        "the answer to a registration is lost: the same incarnation may register again (KIP-631)",
    ),
    LATE_ISR: (
        "broker/replicas/isr_updates.py",
        "an ISR proposal waits as if it had just been refused: nobody may rely on it",
    ),
    UNHEARD_ISR: (
        "broker/replicas/isr_updates.py",
        "the answer to an ISR proposal is lost: leader and controller must agree",
    ),
    EARLY_ROLL: ("broker/replicas/manager.py", "a segment ends early: where one ends is each replica's own business"),
    LATE_FLUSH: ("broker/data.py", "a pass of flushes is left out: what is flushed late is lost at a power cut only"),
    LATE_CHECKPOINT: (
        "broker/data.py",
        "a pass of checkpoints is left out: they are hints, older after a crash anyway",
    ),
    LATE_DELIVERY: ("broker/kraft/delivery.py", "what was agreed is told later: no node may count on another's pace"),
    EARLY_SNAPSHOT: (
        "broker/kraft/effects.py",
        "a metadata snapshot is taken early: how often is each node's own business (KIP-630)",
    ),
    SHORT_METADATA: (
        "broker/kraft/effects.py",
        "a fetch of the metadata log brings one batch: sizes are limits (KIP-595)",
    ),
    SHORT_PIECE: ("broker/kraft/effects.py", "a piece of a snapshot is a kilobyte long: sizes are limits (KIP-630)"),
    UNHEARD_ANSWER: (
        "broker/zookeeper/channels.py",
        "the answer of a broker is lost, the request repeated: all of them may be",
    ),
}
"""Way -> the file under ``moldau`` that takes it, and what it is and why it is allowed."""
