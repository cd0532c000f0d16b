"""``moldau node server.properties``: one node, as in production. SIGTERM or SIGINT is a controlled shutdown.

The one place that builds the real ports for a node. Imports only what a node needs: start-up time and memory are
promises (under half a second, under 60 MB).
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
from collections.abc import Sequence

from moldau.broker.config import NodeConfig, load
from moldau.terms.config_key import ConfigError

USAGE = "usage: moldau node server.properties [--override key=value]... [--logs DIR]"


class UsageError(Exception):
    """The command line makes no sense; the text says why."""


def run_node(arguments: Sequence[str]) -> int:
    """Run until told to stop; the exit code."""
    try:
        path, overrides, logs = _parse(arguments)
    except UsageError as error:
        print(f"moldau node: {error}\n{USAGE}", file=sys.stderr)
        return 2
    try:
        with open(path, encoding="utf-8") as file:
            config = load(file.read(), overrides)
    except (OSError, UnicodeDecodeError) as error:
        print(f"moldau node: cannot read {path}: {error}", file=sys.stderr)
        return 1
    except ConfigError as error:
        print(f"moldau node: {path}: {error}", file=sys.stderr)
        return 1
    return _run(config, logs)


def _parse(arguments: Sequence[str]) -> tuple[str, dict[str, str], str | None]:
    path, overrides, logs = None, {}, os.environ.get("LOG_DIR")
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        name, _, value = word.partition("=")
        if name in ("--override", "--logs"):
            if "=" not in word:
                if not rest:
                    raise UsageError(f"{name} needs a value")
                value = rest.pop(0)
            if name == "--logs":
                logs = value
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
    return path, overrides, logs


def _allow_many_files() -> None:
    """A thousand files of logs, and the connections besides, are more than the 1,024 that a shell allows at first."""
    import resource

    soft, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != most:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _run(config: NodeConfig, logs: str | None) -> int:
    from moldau.broker.node import Node, StartRefused
    from moldau.runtime.logs import start_logs
    from moldau.runtime.memory import collect_seldom, keep_freed_buffers
    from moldau.runtime.world import new_loop, real_world

    start_logs(logs)
    collect_seldom()
    _allow_many_files()
    loop = new_loop()
    asyncio.set_event_loop(loop)
    ended: asyncio.Future[int] = loop.create_future()

    def failed(task: str, error: BaseException) -> None:
        node.failed(task, error)

    zookeeper = None
    if config.on_zookeeper or config.migrates:
        from moldau.zookeeper.session import Session

        zookeeper = Session
    world = real_world(loop, failed, zookeeper)
    node = Node(config, world, lambda code: None if ended.done() else ended.set_result(code))

    async def live() -> int:
        starting = loop.create_task(node.start())
        await asyncio.wait((starting, ended), return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():  # told to stop, or refused, while it waited for others
            return await ended
        try:
            starting.result()
        except (StartRefused, OSError) as error:
            print(f"moldau node {config.node_id}: {error}", file=sys.stderr, flush=True)
            return 1
        # What a start leaves behind lives as long as the process: the collector need not walk it again and again.
        gc.collect()
        gc.freeze()
        keep_freed_buffers()
        return await ended

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, lambda: node.stop_soon())
    try:
        code = loop.run_until_complete(live())
    finally:
        with contextlib.suppress(Exception):
            loop.run_until_complete(loop.shutdown_asyncgens())
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # worker threads may hang on a dead disk; everything that must be on disk is there
