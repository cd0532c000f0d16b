"""Logs in which a pass met damage: what a broken file costs is its partition, never the pass, never the node.

A pass goes on with the next log; this one is named once for each thing found, and stays as it is until somebody reads
it or mends it. A failing directory is no damage of a log: ``LogDir`` tells of that. Only a broken assertion gets
through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from moldau.model import TopicPartition
from moldau.storage.errors import DirOffline
from moldau.storage.log import Log


class Damaged:
    """The partitions whose logs a pass could not work on (``reasons``: what was met last, in words).

    ``on_found`` is told of each new finding as a sentence.
    """

    def __init__(self) -> None:
        self.reasons: dict[TopicPartition, str] = {}
        self.on_found: Callable[[str], object] = lambda sentence: None
        self._told: dict[tuple[TopicPartition, str], str] = {}

    @contextmanager
    def guard(self, log: Log, work: str) -> Iterator[None]:
        """Keep what ``work`` on a log raises to that log; a directory that fails inside tells by itself."""
        try:
            yield
        except DirOffline:
            return
        except AssertionError:
            raise
        except OSError as error:
            verdict = log.dir.judge(error)
            if not isinstance(verdict, DirOffline):
                self.note(log.partition, work, verdict)
        except Exception as error:
            self.note(log.partition, work, error)
        else:
            if self._told.pop((log.partition, work), None) is not None and not self._known(log.partition):
                del self.reasons[log.partition]

    def _known(self, partition: TopicPartition) -> bool:
        return any(known == partition for known, _ in self._told)

    def note(self, partition: TopicPartition, work: str, error: object) -> None:
        """``work`` on the partition's log met ``error``."""
        text = str(error) if not isinstance(error, Exception) or str(error) else repr(error)
        self.reasons[partition] = text
        if self._told.get((partition, work)) != text:
            self._told[partition, work] = text
            self.on_found(f"{work} of {partition} is left out: {text}")

    def forget(self, partition: TopicPartition) -> None:
        """The log is gone, or another one has taken its place."""
        self.reasons.pop(partition, None)
        for key in [key for key in self._told if key[0] == partition]:
            del self._told[key]
