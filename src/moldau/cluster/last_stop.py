"""How the broker that last used a log directory ended, by the files that are there. Reads names only."""

from __future__ import annotations

import enum
import os

from moldau.storage.names import CLEAN_SHUTDOWN, LOG, META, METADATA_TOPIC


class LastStop(enum.Enum):
    """The value is a sentence for people."""

    CLEAN = "the last stop was clean"
    UNCLEAN = "the last stop was not clean; logs are recovered from where they were last known to be on disk"
    NEVER = "no logs of topics are here yet"


def last_stop(path: str) -> LastStop:
    """How the last stop was; OSError when the directory cannot be read."""
    names = os.listdir(path)
    if CLEAN_SHUTDOWN in names:
        return LastStop.CLEAN
    if META in names and any(_holds_log(f"{path}/{name}") for name in names if not name.startswith(METADATA_TOPIC)):
        return LastStop.UNCLEAN
    return LastStop.NEVER


def _holds_log(folder: str) -> bool:
    try:
        return any(name.endswith(LOG) for name in os.listdir(folder))
    except NotADirectoryError:
        return False
