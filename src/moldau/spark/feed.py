"""What the Spark source asks of a cluster: a handful of questions, so that planning can be tested without one.

``Feed`` is the whole list. ``open_feed`` answers it with Moldau's own client (``client_feed.py``); tests answer it from
memory. A feed is used by one thread and is never pickled: each Spark task opens its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from moldau.model import TopicPartition
from moldau.wire.compression import Buffer


class KnownTopic(NamedTuple):
    """A topic as the cluster knows it now; a topic made anew under an old name has another id (KIP-516)."""

    topic_id: bytes
    partitions: tuple[int, ...]
    internal: bool = False


class Aborted(NamedTuple):
    """An aborted transaction as a fetch answer names it: the producer, and where its transaction began."""

    producer_id: int
    first_offset: int


class Slice(NamedTuple):
    """An answer to a fetch: whole record batches, perhaps beginning before the asked offset, and where the log stands.

    ``next_offset`` is the offset after the last batch, the asked one when there is none. ``end_offset`` is the high
    watermark, or the last stable offset when reading committed; -1 when it was not told. ``batches`` says where each
    batch begins, when the client knows.
    """

    records: Buffer
    next_offset: int
    log_start_offset: int
    end_offset: int
    aborted: Sequence[Aborted] = ()
    batches: Sequence[int] | None = None


class LogEnd(NamedTuple):
    """Where a partition's log ends for readers, as the leader of this epoch has it (-1: it did not say)."""

    offset: int
    leader_epoch: int = -1


class PartitionOffset(NamedTuple):
    """An offset in one partition of the topic with this id (NO_UUID: whichever has the name)."""

    topic_id: bytes
    offset: int


class OffsetLost(Exception):
    """A fetch found that the asked records are not there: expired, cut off, or of a topic that was made anew."""


class Feed(Protocol):
    """Questions to a cluster. Each raises what the client raises when the cluster cannot be reached."""

    def topics(self, names: Collection[str] | None) -> Mapping[str, KnownTopic]:
        """The named topics that exist, or all."""
        ...

    def offsets(self, asked: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """-2: earliest, -1: latest, else the first offset at or after that time (ms), -1 when there is none.

        Partitions that are not there are left out.
        """
        ...

    def ends(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, LogEnd]:
        """The latest offset, and under which leader epoch it was told. Partitions that are not there are left out."""
        ...

    def epoch_ends(self, asked: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Where the records of a leader epoch and those before it end; partitions that cannot tell are left out."""
        ...

    def sample(self, asked: Mapping[TopicPartition, PartitionOffset]) -> Mapping[TopicPartition, float]:
        """About how many bytes of the log an offset takes where reading goes on; all are asked at once.

        Partitions with nothing to judge by are left out.
        """
        ...

    def committed(self, group_id: str, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """What the group has committed; partitions without a commit are left out."""
        ...

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Publish positions as a group's commits."""
        ...

    def fetch(self, partition: TopicPartition, topic_id: bytes, offset: int, max_bytes: int) -> Slice:
        """Whole batches from ``offset`` on; empty when there are none yet. OffsetLost when they are gone."""
        ...

    def slices(self, partition: TopicPartition, topic_id: bytes, span: range, max_bytes: int) -> Iterator[Slice]:
        """As ``fetch``, on and on through ``span``; the next is under way while one is used. May end early.

        A slice without records is given when none came though more should: how long to wait is the caller's to say.
        """
        ...

    def close(self) -> None: ...


class FeedUnreachable(Exception):
    """The cluster could not answer now; asking again may help."""
