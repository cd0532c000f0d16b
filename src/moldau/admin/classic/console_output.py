"""Bytes to standard output, as they are, for tools that print what records hold."""

from __future__ import annotations

import sys


class OutputFailed(Exception):
    """Standard output takes nothing more: nobody reads it, or its disk is full."""


def write_bytes(data: bytes) -> None:
    """Write to standard output and flush; OutputFailed when that cannot be done."""
    try:
        sys.stdout.flush()
        out = getattr(sys.stdout, "buffer", None)
        if out is None:  # a stream of text was put in its place
            sys.stdout.write(data.decode("utf-8", "replace"))
            return
        out.write(data)
        out.flush()
    except OSError as error:
        raise OutputFailed(str(error)) from None
