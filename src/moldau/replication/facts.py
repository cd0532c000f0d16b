"""The facts that the partition machine gets: assignments, fetches, responses, and views of the log and the brokers.

Values and Protocols only. ``LogFacts`` and ``BrokerFacts`` are read, never changed, by the machine: the log changes
when the broker executes effects, the brokers when the image does. Read next: ``partition.py``.
"""

from __future__ import annotations

from moldau.model import Code
from moldau.model.named import NamedTuple
from moldau.model.protocol import Protocol
from moldau.replication.effects import Effects
from moldau.replication.epochs import EpochTable


class LogFacts(Protocol):
    """The log as replication sees it; ``moldau.storage.Log`` fits."""

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def settled_end(self) -> int:
        """Return the end of the records that this broker may acknowledge: the log's end, or less while a flush that
        flush.messages asks for is running."""

    @property
    def epochs(self) -> EpochTable: ...


class BrokerFacts(Protocol):
    """The brokers as the image has them."""

    def broker_epoch(self, broker_id: int) -> int | None:
        """Return the epoch of the broker's present registration, fenced or not; None when it is not registered, -1 when
        it is registered under an unknown epoch."""

    def may_join_isr(self, broker_id: int) -> bool:
        """Return whether the broker is registered, unfenced and not in controlled shutdown (KIP-841)."""


class Assignment(NamedTuple):
    """One partition as the image (or LeaderAndIsr) has it. ``leader`` is -1 when there is none."""

    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    recovering: bool = False


class FollowerFetch(NamedTuple):
    """One partition of a follower's Fetch. ``last_fetched_epoch`` and ``current_leader_epoch`` are -1 when absent."""

    replica_id: int
    broker_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    current_leader_epoch: int
    log_start_offset: int
    now_ms: int


class Verdict(NamedTuple):
    """A leader's verdict on a follower's fetch: serve it when ``code`` is NONE and ``diverging`` is None."""

    code: Code
    diverging: tuple[int, int] | None
    effects: Effects


class FetchAnswer(NamedTuple):
    """One partition of a Fetch response, with facts of its request: the leader epoch it was sent under, and the
    position (offset, last fetched epoch) it was sent from."""

    sent_epoch: int
    sent_from: tuple[int, int]
    code: Code
    diverging: tuple[int, int] | None
    high_watermark: int
    log_start_offset: int


class IsrAnswer(NamedTuple):
    """The controller's response to AlterIsr ``serial``; the fields after ``code`` matter on success only.

    A request without a response has NETWORK_EXCEPTION.
    """

    serial: int
    code: Code
    leader_epoch: int = -1
    partition_epoch: int = -1
    isr: tuple[int, ...] = ()
