"""Counts elections as a controller sees them in the committed metadata, since the process started.

An unclean one makes the partition "recovering" in the very record that names the leader (KIP-704). A leader that has to
recover still, and leads again after a stop, was in the ISR or eligible, and is counted once. Decides nothing.
Read next: ``figures.py``.
"""

from __future__ import annotations

from moldau.image import NO_LEADER, Delta, Image
from moldau.image.partition import Recovery


class Elections:
    """``total`` leaders elected, ``unclean`` of them."""

    def __init__(self) -> None:
        self.total = 0
        self.unclean = 0

    def decided(self, image: Image, delta: Delta) -> None:
        """A committed batch changed something."""
        for change in delta.partition_changes(image):
            before, after = change.before, change.after
            if before is None or after is None or after.leader in (NO_LEADER, before.leader):
                continue
            self.total += 1
            is_safe = after.leader in before.isr or after.leader in before.elr
            self.unclean += after.recovery == Recovery.RECOVERING and not is_safe
