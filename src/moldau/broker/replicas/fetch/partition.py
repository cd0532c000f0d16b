"""One partition of a fetch or of a fetch session: what was asked of it, and what its reader was last told.

Decides nothing. A replica tells it of what happens, and it tells its reader (``replicas/fetch/reader.py``); what it is
given is ``replicas/fetch/read.py``.
"""

from __future__ import annotations

from moldau.broker.replicas.host import ReplicaHost
from moldau.broker.replicas.replica import Replica
from moldau.model.named import NamedTuple
from moldau.model.protocol import Protocol
from moldau.storage.uncached import Load
from moldau.wire.messages.k01_fetch import FetchRequest, FetchResponse

PartKey = tuple[bytes | str, int]
"""(topic id, or topic name in versions before 13; partition number)."""
Data = FetchResponse.PartitionData


class FetchParams(NamedTuple):
    """What one fetch request asks of the whole. ``replica_id`` is -1 for consumers."""

    version: int
    replica_id: int
    broker_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    committed: bool
    rack: str
    listener: str


class PartitionReader(Protocol):
    """Who reads: a fetch, or a session of fetches."""

    replicas: ReplicaHost
    params: FetchParams
    asked_ms: int
    loading: bool
    lasting: bool

    def asks_for(self, partition: FetchPartition) -> bool:
        """Whether the partition is one of the fetch, and was not forgotten."""

    def watch(self, partition: FetchPartition) -> None: ...

    def load(self, partition: FetchPartition, load: Load) -> None: ...

    def mark_changed(self, partition: FetchPartition) -> None: ...

    def notify(self, partition: FetchPartition, *, urgent: bool = False) -> None: ...

    def records_appended(self, partition: FetchPartition, first_offset: int) -> None: ...

    def count_next_fetch(self, partition: FetchPartition) -> None: ...


class FetchPartition:
    """A partition and its reader; replicas know it as one of their ``FetchWaiter``."""

    __slots__ = (
        "crowded_out",
        "fetch_offset",
        "key",
        "last_fetched_epoch",
        "leader_epoch",
        "loaded",
        "log_start_offset",
        "max_bytes",
        "number",
        "reader",
        "replica",
        "reported",
        "sent_high_watermark",
        "sent_log_start",
        "topic",
        "topic_id",
    )  # fmt: skip

    def __init__(self, reader: PartitionReader, key: PartKey, topic: FetchRequest.FetchTopic) -> None:
        self.reader = reader
        self.key = key
        self.topic = topic.topic
        self.topic_id = bytes(topic.topic_id)
        self.number = key[1]
        self.replica: Replica | None = None
        self.loaded = False
        """What it reads next was brought into memory for it."""
        self.crowded_out = False
        """What the answer has room for was less than its next batch, when it was last looked at."""
        self.sent_high_watermark = -1
        self.sent_log_start = -1

    def update(self, part: FetchRequest.FetchPartition) -> None:
        """What a request says of the partition."""
        self.fetch_offset = part.fetch_offset
        self.last_fetched_epoch = part.last_fetched_epoch
        self.leader_epoch = part.current_leader_epoch
        self.log_start_offset = part.log_start_offset
        self.max_bytes = part.partition_max_bytes
        self.reported = False  # a follower's position: told to the machine once, not at each look

    def has_more(self, replica_id: int) -> bool:
        """Whether there is something to read for this follower, or for a consumer (-1)."""
        replica = self.replica
        if replica is None:
            return False
        return self.fetch_offset < (replica.log.log_end_offset if replica_id >= 0 else replica.machine.high_watermark)

    def is_news(self, data: Data) -> bool:
        """Whether it belongs in an incremental answer: it holds something that the reader was not sent before."""
        return bool(
            data.records
            or data.error_code
            or data.high_watermark != self.sent_high_watermark
            or data.log_start_offset != self.sent_log_start
            or data.preferred_read_replica >= 0
            or data.diverging_epoch.epoch >= 0
        )

    def note_sent(self, data: Data) -> None:
        """Remember what the reader is sent, for ``is_news``."""
        # Who is told where histories part takes nothing else from the answer: the watermark is sent again (L3).
        self.sent_high_watermark = -1 if data.diverging_epoch.epoch >= 0 else data.high_watermark
        self.sent_log_start = data.log_start_offset

    # ---- what its replica tells it

    @property
    def replica_id(self) -> int:
        """The follower that reads; -1 for a consumer."""
        return self.reader.params.replica_id

    def records_appended(self, first_offset: int) -> None:
        """Records were appended from ``first_offset`` on, while this follower was waiting for them."""
        self.reader.records_appended(self, first_offset)

    def notify(self, *, urgent: bool = False) -> None:
        """There may be something to read, or (``urgent``) something to say at once."""
        if self.reader.asks_for(self):
            self.reader.notify(self, urgent=urgent)

    def mark_changed(self) -> None:
        """There is something new to tell, which nobody need be woken for."""
        self.reader.mark_changed(self)

    def count_next_fetch(self) -> None:
        """The leader counts this follower's next fetch, whether or not it names the partition."""
        self.reader.count_next_fetch(self)
