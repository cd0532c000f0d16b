"""Which log directories still answer: a probe of each is under way or was answered, and who is silent too long hangs.

Decides which directory hangs while others answer, and when a node should be silent itself. Counts looks and not time: a
process that was stopped, or a loop that was held up, looks once when it goes on, and finds answers the next time. When
no directory answers the fault is likely not theirs (a machine that is suspended, one device under all of them), and
nobody is judged. Sends nothing itself: ``moldau.broker.data`` does.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.storage.folder import LogDir

LOOKS_MAX = 10
"""So many looks a probe may be under way; the next one finds that the directory hangs."""
LOOKS_FEW = 4
"""A directory whose probe is under way for no longer than that has answered a moment ago."""


class DiskProbes:
    """The probes of one broker's log directories."""

    def __init__(self) -> None:
        self._looks: dict[LogDir, int] = {}
        """How often somebody looked since the probe was sent; nothing of a directory that owes no answer."""
        self._alone: dict[LogDir, int] = {}
        """How many looks in a row found it silent while another answered."""

    def sent(self, dir: LogDir) -> None:
        """A probe of the directory is under way."""
        self._looks[dir] = 0

    def answered(self, dir: LogDir) -> None:
        """Its probe is through."""
        self._looks.pop(dir, None)
        self._alone.pop(dir, None)

    def hung(self, online: Sequence[LogDir]) -> list[LogDir]:
        """Directories that hang while another answers; to be called regularly."""
        for dir in self._looks:
            self._looks[dir] += 1
        answer = {dir for dir in online if self._looks.get(dir, 0) <= LOOKS_FEW}
        for (
            dir
        ) in self._looks:  # those that all hung come back one after the other: the last one is not judged for that
            self._alone[dir] = self._alone.get(dir, 0) + 1 if answer - {dir} else 0
        return [dir for dir in online if self._alone.get(dir, 0) > LOOKS_MAX]

    def silent(self, online: Sequence[LogDir]) -> list[LogDir]:
        """Directories whose answer is overdue."""
        return [dir for dir in online if self._looks.get(dir, 0) > LOOKS_MAX]
