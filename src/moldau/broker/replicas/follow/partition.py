"""What a fetcher knows of one partition it follows: what the leader's session was last told, and when to try again.

Decides how long a partition is left out after an error. Read next: ``replicas/follow/fetcher.py``.
"""

from __future__ import annotations

from moldau.broker.replicas.replica import Replica
from moldau.model.backoff import backoff_ms, longer_ms
from moldau.model.named import NamedTuple
from moldau.ports import Handle

FIRST_BACKOFF_MS = 5
FIRST_RETRY_MS = 10


class Mention(NamedTuple):
    """What a fetch request says of a partition. ``position``: fetch offset and last fetched epoch."""

    leader_epoch: int
    position: tuple[int, int]
    log_start: int


class SentFetch(NamedTuple):
    """A request under way."""

    serial: int
    opens_session: bool


class _AwaitsDisk:
    """The delay of a partition whose log's files are not yet as they must be: no clock ends it, the disk does."""

    def cancel(self) -> None: ...


AWAITS_DISK: Handle = _AwaitsDisk()


class FollowedPartition:
    """One partition in a fetcher (Kafka: PartitionFetchState). ``delay`` is set while it is left out of fetches: the
    timer that ends that, after an error or while it is throttled, or ``AWAITS_DISK``."""

    __slots__ = ("_in_force", "_unanswered", "backoff_ms", "delay", "in_session", "replica")

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.in_session = False
        self.delay: Handle | None = None
        self.backoff_ms = 0
        self._in_force: Mention | None = None
        self._unanswered: tuple[tuple[int, Mention], ...] = ()
        """Mentions in requests that are not answered yet, two at most, with the serials of these."""

    def named(self, serial: int, mention: Mention, *, at_once: bool) -> None:
        """Request ``serial`` names it. Unless that is the only one under way (``at_once``), answers to earlier requests
        still speak of the mention before."""
        self.in_session = True
        if at_once:
            self._in_force, self._unanswered = mention, ()
        else:
            self._unanswered = (*self._unanswered, (serial, mention))

    def as_of(self, serial: int) -> Mention | None:
        """What the leader's session held of it when it answered request ``serial``; None: nothing yet."""
        while self._unanswered and self._unanswered[0][0] <= serial:
            self._in_force, self._unanswered = self._unanswered[0][1], self._unanswered[1:]
        return self._in_force

    @property
    def told_start(self) -> int | None:
        """The log's start in its newest mention."""
        newest = self._unanswered[-1][1] if self._unanswered else self._in_force
        return None if newest is None else newest.log_start

    def next_backoff_ms(self, max_ms: int) -> int:
        """How long to leave it out now: longer after each error in a row."""
        self.backoff_ms = longer_ms(self.backoff_ms, FIRST_BACKOFF_MS, max_ms)
        return self.backoff_ms

    def unblock(self) -> None:
        if self.delay is not None:
            self.delay.cancel()
            self.delay = None
        self.backoff_ms = 0


def retry_wait_ms(failures: int, max_ms: int) -> int:
    """How long to wait before connecting again."""
    return backoff_ms(failures - 1, FIRST_RETRY_MS, max_ms)
