"""The control plane as the controller sees it: two verbs out, four events in (docs/architecture.md, "Two
control planes").

In KRaft mode it commits by majority append, in ZooKeeper mode by a multi-op fenced by the controller epoch. The
controller cannot tell which one it runs on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from moldau.model.protocol import Protocol


class PlaneEvents(Protocol):
    """What a plane tells its listener, in order, on the loop."""

    def became_active(self, epoch: int) -> None:
        """This node may decide, under this epoch; everything committed before has been delivered."""

    def lost_active(self) -> None:
        """This node may no longer decide; whatever it proposed and has not seen committed is void here."""

    def committed(self, records: Sequence[Any], offset: int, epoch: int) -> Iterator[None] | None:
        """Records (metadata messages, in log order) are agreed; ``offset`` is the last one's offset.

        What is too much for one turn of the loop is returned: it goes on with each ``next``, and nothing else is told
        before its end.
        """

    def load_snapshot(self, records: Sequence[Any], offset: int, epoch: int) -> None:
        """Replace everything known: the records of a snapshot that ends at ``offset``."""


class ControlPlane(Protocol):
    """What the controller asks of a plane."""

    def propose(self, records: Sequence[Any], epoch: int) -> int | None:
        """Append records atomically under ``epoch``; the offset of the last, or None when this node is not active in
        it.

        Not yet committed on return: ``committed`` says when, ``lost_active`` says never (here).
        """

    def resign(self) -> None:
        """Give up being active (shutdown, or a state that cannot be trusted)."""
