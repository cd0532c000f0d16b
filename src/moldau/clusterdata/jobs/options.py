"""The options of a job over files of nodes."""

from __future__ import annotations

from moldau.model.named import NamedTuple

HOUR_MS = 3_600_000
LONGEST_MS = 900_000
"""How long a transaction may last unless a broker's ``transaction.max.timeout.ms`` says otherwise."""


class JobOptions(NamedTuple):
    """``paths`` are files and folders; empty ``topics``, ``groups`` and ``transactional_ids`` are all of them;
    ``every_ms`` is how long each span of time is in which something is counted, ``longest_ms`` how long any transaction
    may last, ``now_ms`` the time that it is, by the clock of this machine when it is None."""

    paths: tuple[str, ...]
    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    every_ms: int = HOUR_MS
    transactional_ids: tuple[str, ...] = ()
    longest_ms: int = LONGEST_MS
    now_ms: int | None = None
