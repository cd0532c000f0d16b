"""How many file descriptors clients may take: some are kept for the node's own files and connections.

Where all are taken, nothing can be opened: no segment, no checkpoint, no connection to the controller. A connection
whose descriptor is one of the last is closed at once, whatever ``max.connections`` allows. What clients, open files of
logs and the node itself may take is together what the process may have.
"""

from __future__ import annotations

import resource
from typing import Any

RESERVED = 200
"""Kept for the node itself, or a quarter of what the process may have if that is less."""


def is_one_of_the_last(transport: Any, files_to_come: int = 0) -> str:  # Any: asyncio gives any, uvloop its own
    """Why a connection that was just made is to be closed, "" when it may stay; so many files of logs may still be
    opened beside those that are."""
    socket = transport.get_extra_info("socket")
    if not hasattr(socket, "fileno"):
        return ""  # of a simulated network
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY:
        return ""
    kept = min(RESERVED, most // 4) + files_to_come
    if socket.fileno() < most - kept:  # the system gives the lowest that is free
        return ""
    return f"of the {most} file descriptors that `ulimit -n` allows only {kept} are left, which the node needs itself"


def open_files_most(wanted: int) -> int:
    """How many files of logs may be open: no more than a quarter of what the process may have."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if most == resource.RLIM_INFINITY else min(wanted, most // 4)
