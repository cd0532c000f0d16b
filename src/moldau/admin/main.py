"""The ``moldau`` command. ``moldau node`` is started without loading the rest: a broker must be up in half a second.

Every other noun is a file of this package, loaded when it is named. Exit codes: 0 done, 1 failed, 2 usage, 3 still in
progress, 4 mismatch, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

INTERRUPTED = 130


def main() -> None:
    """The entry point."""
    arguments = sys.argv[1:]
    try:
        if arguments[:1] == ["node"] and "--help" not in arguments:
            from moldau.admin.node import run_node

            sys.exit(run_node(arguments[1:]))
        if arguments and arguments[0].endswith(".sh"):
            from moldau.admin.classic.run import is_classic, run

            if is_classic(arguments[0]):
                sys.exit(run(arguments[0], arguments[1:]))
        import_module("moldau.admin.cli").run()
    except KeyboardInterrupt:  # also while it was still loading
        fail("interrupted", INTERRUPTED)
    except BrokenPipeError:  # whoever read our output has gone
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # for what is still in the buffer
        raise SystemExit(1) from None
    except OSError as error:
        fail(reason(error))


def reason(error: BaseException) -> str:
    """What went wrong, in words: without Python's number of it, and with the file's name where it has one."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__


def fail(message: str, code: int = 1) -> Any:
    """Say why on stderr and end with ``code``."""
    print(f"moldau: {message}", file=sys.stderr)
    raise SystemExit(code)
