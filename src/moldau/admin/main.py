"""The ``moldau`` command. ``moldau node`` is started without loading the rest: a broker must be up in half a second.

Every other noun is a file of this room, loaded when it is named. Exit codes: 0 done, 1 failed, 2 usage, 3 still in
progress, 4 mismatch.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any


def main() -> None:
    """The entry point."""
    arguments = sys.argv[1:]
    try:
        if arguments[:1] == ["node"] and "--help" not in arguments:
            from moldau.admin.node import run_node

            sys.exit(run_node(arguments[1:]))
        import_module("moldau.admin.cli").cli(prog_name="moldau")
    except KeyboardInterrupt:  # while it was still loading: later, each command has its own way to end
        fail("interrupted")


def fail(message: str, code: int = 1) -> Any:
    """Say why on stderr and end with ``code``."""
    print(f"moldau: {message}", file=sys.stderr)
    raise SystemExit(code)
