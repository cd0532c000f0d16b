"""``moldau node server.properties``: one node, as in production. SIGTERM or SIGINT is a controlled shutdown.

The one place that builds the real ports for a node. Imports only what a node needs: start-up time and memory are
promises (under half a second, under 60 MB).
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import gc
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from moldau.admin.banner import banner, ignored
from moldau.broker.config.node_config import NodeConfig, load
from moldau.model.config_key import ConfigError
from moldau.model.properties import decode_properties
from moldau.ports import Tasks
from moldau.ports.pools import COMPUTING
from moldau.runtime.levels import read_levels
from moldau.runtime.open_files import allow_many_files

if TYPE_CHECKING:
    from moldau.broker.node import Node

USAGE = "usage: moldau node server.properties [--override key=value]... [--logs DIR] [--log-level [LOGGER=]LEVEL,...]"
SETTLED_S, PAUSE_S, AGAIN_S = 1.0, 0.05, 60.0
"""How long after its start a node loads what answers requests that nobody has sent yet, and how long it rests between
two of them: all together take a processor for 60 ms and hold the interpreter's lock, and nodes that start together
need both for their first elections and their first clients. What could not be loaded is tried again after the last."""
log = logging.getLogger(__name__)


class UsageError(Exception):
    """The command line makes no sense; the text says why."""


def run_node(arguments: Sequence[str]) -> int:
    """Run until told to stop, and end the process; the exit code of a start that was refused before."""
    began = time.monotonic()
    try:
        path, overrides, logs, level = _parse(arguments)
    except UsageError as error:
        print(f"moldau node: {error}\n{USAGE}", file=sys.stderr)
        return 2
    try:
        with open(path, "rb") as file:
            config = load(decode_properties(file.read()), overrides)
        levels = read_levels(level or os.environ.get("MOLDAU_LOG_LEVEL") or config["logger.level"])
    except OSError as error:
        print(f"moldau node: cannot read {path}: {error.strerror}", file=sys.stderr)
        return 1
    except ConfigError as error:
        print(f"moldau node: {path}: {error}", file=sys.stderr)
        return 1
    except ValueError as error:
        print(f"moldau node: {error}", file=sys.stderr)
        return 1
    from moldau.runtime.logs import start_logs, stop_logs

    try:
        start_logs(
            logs,
            levels,
            max_bytes=config["logger.file.max.bytes"],
            max_files=config["logger.max.files"],
            max_age_s=config["logger.file.max.age.hours"] * 3600 or None,
            state_change_stdout=config["logger.state.change.stdout"],
        )
    except OSError as error:
        print(f"moldau node: cannot write logs to {logs}: {error.strerror or error}", file=sys.stderr)
        return 1
    for line in banner(config):
        log.info("%s", line)
    if without_effect := ignored(os.environ):
        log.warning("%s", without_effect)
    code = _run(config, logs, began)
    log.info("node %d stopped, exit code %d, after %.1f s", config.node_id, code, time.monotonic() - began)
    stop_logs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # worker threads may hang on a dead disk; everything that must be on disk is there


def _parse(arguments: Sequence[str]) -> tuple[str, dict[str, str], str | None, str | None]:
    path, overrides, logs, level = None, {}, os.environ.get("LOG_DIR"), None
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        name, _, value = word.partition("=")
        if name in ("--override", "--logs", "--log-level"):
            if "=" not in word:
                if not rest:
                    raise UsageError(f"{name} needs a value")
                value = rest.pop(0)
            if name == "--logs":
                logs = value
                continue
            if name == "--log-level":
                level = value
                continue
            key, equals, text = value.partition("=")
            if not equals:
                raise UsageError(f"--override {value}: key=value is expected")
            overrides[key] = text
        elif word.startswith("-"):
            raise UsageError(f"{word} is no option of this command")
        elif path is None:
            path = word
        else:
            raise UsageError(f"one properties file is expected, {word} is a second")
    if path is None:
        raise UsageError("a server.properties is expected")
    return path, overrides, logs, level


def _watch_steps(loop: asyncio.AbstractEventLoop) -> None:
    """Log the stack of each step of the loop that takes longer than MOLDAU_SLOW_STEP_MS, when that is set."""
    threshold = os.environ.get("MOLDAU_SLOW_STEP_MS", "")
    if threshold.isdecimal() and int(threshold) > 0:
        from moldau.runtime.slow_steps import SlowSteps

        SlowSteps(loop, int(threshold)).start()


def _handle_signals(loop: asyncio.AbstractEventLoop, node: Node, logs: str | None) -> None:
    """SIGTERM and SIGINT: a controlled shutdown; SIGHUP: open the log files again; SIGUSR1: log the node's state."""
    from moldau.runtime.logs import reopen_logs

    def show_state() -> None:
        from moldau.broker.metrics.state import log_state  # hardly ever needed, and a start has no time for it

        node.world.tasks.spawn(log_state(node), "state")

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, node.stop_soon)
    # logrotate's word to a process without a terminal; at one, the user has closed it.
    rotates = logs is not None and not (sys.stdin is not None and sys.stdin.isatty())
    loop.add_signal_handler(signal.SIGHUP, reopen_logs if rotates else node.stop_soon)
    loop.add_signal_handler(signal.SIGUSR1, show_state)


async def load_one_by_one(
    works: Iterable[Callable[[], object]], tasks: Tasks, ended: asyncio.Future[int], again_s: float = AGAIN_S
) -> None:
    """Load what answers requests, on a thread. What cannot be loaded now, as where no file descriptor is free, is tried
    again later: the node goes on without it, and who asks for it meanwhile has it loaded."""
    left = list(works)
    while left and not ended.done():
        failed: list[Callable[[], object]] = []
        for work in left:
            if ended.done():
                return
            try:
                await tasks.off_loop(work, COMPUTING)
            except Exception as error:  # whatever it is, it must not end a node that serves
                if not failed:
                    log.warning("a part of the program could not be loaded, and is tried again: %s", error)
                failed.append(work)
            await asyncio.wait((ended,), timeout=PAUSE_S)
        left = failed
        if left:
            await asyncio.wait((ended,), timeout=again_s)


def _run(config: NodeConfig, logs: str | None, began: float) -> int:
    from moldau.broker.api import handlers_to_import
    from moldau.broker.node import Node, StartRefused
    from moldau.runtime.memory import collect_seldom, keep_freed_buffers
    from moldau.runtime.world import new_loop, real_world

    faulthandler.enable()  # a crash in C code names every thread's stack on standard error
    collect_seldom()
    allow_many_files()
    loop = new_loop()
    asyncio.set_event_loop(loop)
    _watch_steps(loop)
    ended: asyncio.Future[int] = loop.create_future()

    def failed(task: str, error: BaseException) -> None:
        node.failed(task, error)

    zookeeper = None
    if config.on_zookeeper or config.migrates:
        from moldau.zookeeper.session import Session

        zookeeper = Session
    world = real_world(loop, failed, zookeeper)
    node = Node(config, world, lambda code: None if ended.done() else ended.set_result(code))
    loop.set_exception_handler(node.callback_failed)

    async def live() -> int:
        starting = loop.create_task(node.start())
        await asyncio.wait((starting, ended), return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():  # told to stop, or refused, while it waited for others
            return await ended
        try:
            starting.result()
        except (StartRefused, OSError) as error:
            log.critical("the start failed: %s", error)
            print(f"moldau node {config.node_id}: {error}", file=sys.stderr, flush=True)
            return 1
        log.info("node %d started in %.2f s", config.node_id, time.monotonic() - began)
        # What a start leaves behind lives as long as the process: the collector need not walk it again and again.
        gc.collect()
        gc.freeze()
        keep_freed_buffers()
        await asyncio.wait((ended,), timeout=SETTLED_S)
        await load_one_by_one(handlers_to_import(), world.tasks, ended)
        return await ended

    _handle_signals(loop, node, logs)
    try:
        code = loop.run_until_complete(live())
    finally:
        with contextlib.suppress(Exception):
            loop.run_until_complete(loop.shutdown_asyncgens())
    return code
