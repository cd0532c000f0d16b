"""Runs a classic tool: by the name of its script, or of its class.

A tool writes to standard output and error and returns its exit status. Interrupted, it ends with 130 and without a
word, as a JVM does; an output that nobody reads any more is no failure of it (streams.py).
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from moldau.admin.classic.java import JavaError
from moldau.admin.classic.options import GivenOptions, Option, ToolUsageError, asks_zookeeper
from moldau.admin.classic.registry import CLASSES, KAFKA_VERSION, OF_ZOOKEEPER, RUN_CLASS, SCRIPTS
from moldau.admin.classic.streams import that_never_fail
from moldau.admin.signals import HungUp, Terminated

INTERRUPTED, TERMINATED, HUNG_UP = 128 + signal.SIGINT, 128 + signal.SIGTERM, 128 + signal.SIGHUP


def is_classic(name: str) -> bool:
    """Whether this is the name of a tool's script."""
    return name in SCRIPTS or name == RUN_CLASS


def run(name: str, arguments: Sequence[str]) -> int:
    """The exit status of a tool that has run to its end; OSError when what it said could not all be written."""
    try:
        with that_never_fail():
            return _main(name, list(arguments))
    except HungUp:
        return HUNG_UP
    except Terminated:
        return TERMINATED
    except KeyboardInterrupt:
        return INTERRUPTED


def _main(name: str, arguments: list[str]) -> int:
    module = SCRIPTS.get(name)
    if name == RUN_CLASS:
        if not arguments:
            print(f"USAGE: {RUN_CLASS} [-daemon] [-name servicename] [-loggc] classname [opts]")
            return 1
        name, *arguments = arguments
        module = CLASSES.get(name)
    if module is None:
        print(f"Error: Could not find or load main class {name}", file=sys.stderr)
        print(f"Caused by: java.lang.ClassNotFoundException: {name}", file=sys.stderr)
        return 1
    if asks_zookeeper(arguments):
        module = OF_ZOOKEEPER.get(module, module)
    tool: Callable[[list[str]], int] = import_module(f"moldau.admin.classic.{module}").main
    try:
        return tool(arguments)
    except Finished as finished:
        return finished.status
    except ToolUsageError as error:
        return print_usage(error.options, str(error))
    except JavaError as error:
        sys.stdout.flush()
        sys.stderr.write(f'Exception in thread "main" {error.trace}')
        return 1


class Finished(Exception):
    """There is no more to do; ``status`` is the exit status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def print_usage(options: Sequence[Option], message: str) -> int:
    """Write the message and the list of options to standard error; the exit status."""
    from moldau.admin.classic.usage import table

    sys.stdout.flush()
    sys.stderr.write(f"{message}\n{table(options)}")
    return 1


def help_or_version(given: GivenOptions, about: str) -> None:
    """Finished when help (``about`` and the options) or the version was asked for; no argument at all asks for help."""
    if not given.arguments or given.has("help"):
        raise Finished(print_usage(given.options, about))
    if given.has("version"):
        print(KAFKA_VERSION)
        raise Finished(0)


def tell(error: JavaError) -> int:
    """Write the message of a failure and its trace to standard error, as most tools end; the exit status."""
    sys.stdout.flush()
    sys.stderr.write(f"{error.said}\n{error.trace}\n")
    return 1
