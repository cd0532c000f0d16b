"""How many files this process may have open."""

from __future__ import annotations

import contextlib
import resource


def allow_many_files() -> None:
    """Raise the soft limit of open files to the hard one: a thousand files of logs, and the connections besides, are
    more than the 1,024 that a shell allows at first."""
    soft, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != most:
        with contextlib.suppress(OSError, ValueError):  # as many as there may be is what we have then
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
