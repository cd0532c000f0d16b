"""What is asked of a job."""

from __future__ import annotations

from moldau.model.named import NamedTuple

HOUR_MS = 3_600_000


class Wish(NamedTuple):
    """``paths`` are files and folders; empty ``topics``, ``groups`` and ``transactional_ids`` are all of them;
    ``every_ms`` is how long each span of time is in which something is counted."""

    paths: tuple[str, ...]
    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    every_ms: int = HOUR_MS
    transactional_ids: tuple[str, ...] = ()
