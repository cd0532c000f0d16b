"""Closes the event loop of a test that may have failed."""

from __future__ import annotations

import asyncio
import sys
import warnings


def close(loop: asyncio.AbstractEventLoop) -> None:
    """Close it, whatever the test left open, and fail if it passed and left something.

    uvloop warns of a server that nobody has closed while it closes that. Where warnings are errors the server stayed
    open then, and ``close`` waited for it without end: a test that failed hung its process, out of reach of its limit.
    """
    with warnings.catch_warnings(record=True) as unclosed:
        warnings.simplefilter("always", ResourceWarning)
        loop.close()
    if sys.exception() is None:
        assert not [str(one.message) for one in unclosed]
