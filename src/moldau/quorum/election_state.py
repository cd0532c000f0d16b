"""What a replica writes down before it votes: ``state.py`` holds it, ``effects.py`` has it persisted."""

from __future__ import annotations

from moldau.model.named import NamedTuple
from moldau.quorum.voters import ReplicaKey


class ElectionState(NamedTuple):
    """What must survive a restart. ``leader`` and ``voted`` are of ``epoch``."""

    epoch: int = 0
    leader: int | None = None
    voted: ReplicaKey | None = None
