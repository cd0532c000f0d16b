"""The state of a node as text, for whoever looks for a cause: the page /debug, and the log after SIGUSR1.

Looked up when somebody asks. Replicas are walked in pieces, between which the loop turns, so that the lines are those
of slightly different moments; at most ``REPLICAS_MAX`` are shown, those with missing replicas first. Read next:
``page.py``.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator

from moldau.broker.loop import yield_to_loop
from moldau.broker.metrics.health import report
from moldau.broker.metrics.reported import Reported

log = logging.getLogger(__name__)

AT_ONCE = 200
"""Replicas looked at before the loop turns."""
REPLICAS_MAX = 1000
TASKS_MAX = 200


async def state(node: Reported) -> str:
    """Health, quorum, connections, requests that wait, fetchers, fetch sessions, tasks and replicas, in sections."""
    lines = [json.dumps(report(node), indent=2)]
    lines += _section("quorum", _quorum(node))
    lines += _section(
        "connections",
        (f"{socket_listener.name}: {len(socket_listener.connections)}" for socket_listener in node.listeners),
    )
    if node.loaded:
        replicas = node.replicas
        kinds = sorted(replicas.purgatory.kinds().items())
        lines += _section("waiting requests", (f"{kind}: {count}" for kind, count in kinds))
        lines += _section("fetchers", map(repr, replicas.fetchers))
        lines += _section("fetch sessions", map(repr, replicas.sessions))
    lines += _section("tasks", _tasks())
    if node.loaded:
        lines += _section("replicas", await _replicas(node))
    return "\n".join(lines) + "\n"


async def log_state(node: Reported) -> None:
    """Write the state to the log, as one record."""
    try:
        text = await state(node)
    except AssertionError:
        raise
    except Exception as error:  # whoever looks at a node must not be able to end it
        node.survived("state", error)
    else:
        log.info("the state of this node, as SIGUSR1 asks for", extra={"lines": text})


def _section(title: str, lines: Iterator[str] | list[str]) -> list[str]:
    return ["", f"[{title}]", *lines]


def _quorum(node: Reported) -> Iterator[str]:
    quorum = node.plane.quorum if node.has_joined and not node.config.on_zookeeper else None
    if quorum is not None:
        leader, epoch = node.plane.leader
        yield f"{type(quorum.role).__name__} in epoch {epoch}, leader {leader}"
        yield f"high watermark {quorum.high_watermark}, log end {quorum.log.end}, image at {node.metadata.offset}"


def _tasks() -> Iterator[str]:
    """What the loop has to go on with, and where each task waits."""
    tasks = sorted(asyncio.all_tasks(), key=lambda task: task.get_name())
    for task in tasks[:TASKS_MAX]:
        yield f"{task.get_name()}: {_where(task.get_coro())}"
    if len(tasks) > TASKS_MAX:
        yield f"... and {len(tasks) - TASKS_MAX} more"


def _where(work: object) -> str:
    """The innermost coroutine that a task waits in."""
    while hasattr(inner := getattr(work, "cr_await", None), "cr_frame"):
        work = inner
    frame = getattr(work, "cr_frame", None)
    return f"{frame.f_code.co_qualname}:{frame.f_lineno}" if frame is not None else "at its end"


async def _replicas(node: Reported) -> list[str]:
    shown: list[str] = []
    missing: list[str] = []
    every = list(node.replicas.by_key.values())
    for number, replica in enumerate(every, 1):
        machine = replica.machine
        if len(machine.isr) < len(machine.replicas) and len(missing) < REPLICAS_MAX:
            missing.append(repr(replica))
        elif len(shown) < REPLICAS_MAX:
            shown.append(repr(replica))
        if number % AT_ONCE == 0:
            await yield_to_loop(node.world.tasks)
    lines = [*missing, *shown][:REPLICAS_MAX]
    lines += [f"{partition}: its log cannot be opened" for partition in node.replicas.unreachable.values()]
    if len(every) > REPLICAS_MAX:
        lines.append(f"... and {len(every) - REPLICAS_MAX} more")
    return lines
