"""The metrics of nodes as records of a topic: one of each node in each interval, also when its page does not answer.

While the cluster is away records wait, the newest ``WAITING_BYTES_MAX`` of them; what was dropped the next record of
that node counts.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Protocol

from moldau.model import Code
from moldau.model.named import NamedTuple
from moldau.publishing.pages import ask, metrics_record, series, silence_record
from moldau.publishing.records import key_of
from moldau.publishing.stream import Away, NotTaken
from moldau.wire.batch import Builder
from moldau.wire.compression import Codec

WAITING_BYTES_MAX = 8 << 20
BATCH_BYTES = 768 << 10
PAGE_S = 5.0
"""How long a page may take, if the interval is not shorter."""
AT_ONCE = 16
"""Pages that are asked at the same time."""


class MetricsTopic(Protocol):
    """The topic, as metrics need it. All raise Away when the cluster cannot be asked."""

    def partition_for(self, node: int) -> int:
        """Where records of a node belong."""

    def producer(self) -> tuple[int, int]:
        """A new producer id and its epoch."""

    def append(self, partition: int, batch: bytes) -> Code:
        """Write a batch; what the broker said, if that stands."""

    def ensure(self) -> None:
        """Make the topic if it is not there."""


class _Waiting(NamedTuple):
    node: int
    at_ms: int
    value: bytes
    missed: int


class _Batch(NamedTuple):
    partition: int
    data: bytes
    records: int


class Figures:
    """Asks pages (``look``) and writes what they said (``write``); one thread does both."""

    def __init__(
        self,
        topic: MetricsTopic,
        *,
        codec: Codec = Codec.GZIP,
        timeout_s: float = PAGE_S,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        ask: Callable[[str, float], str] = ask,
    ) -> None:
        self.written = 0
        self._topic, self._codec, self._timeout_s = topic, codec, timeout_s
        self._now_ms, self._ask = now_ms, ask
        self._waiting: deque[_Waiting] = deque()
        self._bytes = 0
        self._missed: Counter[int] = Counter()
        self._sending: _Batch | None = None
        self._identity: tuple[int, int] | None = None
        self._sequences: dict[int, int] = {}

    @property
    def waiting(self) -> int:
        """Records that are not written yet."""
        return len(self._waiting) + (self._sending.records if self._sending is not None else 0)

    def look(self, pages: Mapping[int, str]) -> None:
        """Ask the page of each node, all at once; a record for each waits then."""
        for one in self._records(pages):
            self._waiting.append(one)
            self._bytes += len(one.value)
        while self._bytes > WAITING_BYTES_MAX:
            dropped = self._waiting.popleft()
            self._bytes -= len(dropped.value)
            self._missed[dropped.node] += 1 + dropped.missed

    def _records(self, pages: Mapping[int, str]) -> list[_Waiting]:
        """A record of each page. Who ends the process waits for none of them: a pool's threads would be."""
        left = deque(pages.items())
        found: dict[int, _Waiting | Exception] = {}

        def ask_some() -> None:
            while left:
                with suppress(IndexError):  # another thread has taken the last
                    node, page = left.popleft()
                    try:
                        found[node] = self._record(node, page)
                    except Exception as error:
                        found[node] = error

        threads = [threading.Thread(target=ask_some, daemon=True) for _ in range(min(len(pages), AT_ONCE))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        records = []
        for node in pages:
            one = found[node]
            if isinstance(one, Exception):
                raise one
            records.append(one)
        return records

    def _record(self, node: int, page: str) -> _Waiting:
        at_ms, missed = self._now_ms(), self._missed.pop(node, 0)
        try:
            value = metrics_record(node, at_ms, page, series(self._ask(page, self._timeout_s)), missed)
        except OSError as error:
            value = silence_record(node, at_ms, page, error.strerror or str(error) or type(error).__name__, missed)
        return _Waiting(node, at_ms, value, missed)

    def write(self) -> bool:
        """Write some of what waits; whether more does. After Away the same is tried again; NotTaken drops it."""
        if self._sending is None:
            if not self._waiting:
                return False
            self._sending = self._take()
        sending = self._sending
        code = self._topic.append(sending.partition, sending.data)
        if code in (Code.NONE, Code.DUPLICATE_SEQUENCE_NUMBER):
            self._sequences[sending.partition] = (self._sequences[sending.partition] + sending.records) & 0x7FFFFFFF
            self.written += sending.records
            self._sending = None
            return bool(self._waiting)
        if code is Code.UNKNOWN_TOPIC_OR_PARTITION:
            self._topic.ensure()
            raise Away("the topic of metrics was not there")
        if code in (Code.OUT_OF_ORDER_SEQUENCE_NUMBER, Code.UNKNOWN_PRODUCER_ID, Code.INVALID_PRODUCER_EPOCH):
            self._identity = None  # its batch may be in the topic: the same minute of a node twice is no harm
        self._sending = None
        raise NotTaken(f"{sending.records} records of metrics are dropped: {code.name}")

    def _take(self) -> _Batch:
        """A batch of the oldest records, all of one partition."""
        partition = self._topic.partition_for(self._waiting[0].node)
        if self._identity is None:
            self._identity, self._sequences = self._topic.producer(), {}
        builder = Builder()
        while self._waiting and (not builder.count or builder.size + len(self._waiting[0].value) < BATCH_BYTES):
            one = self._waiting[0]
            if self._topic.partition_for(one.node) != partition:
                break
            builder.append(one.at_ms, key_of(one.node), one.value)
            self._waiting.popleft()
            self._bytes -= len(one.value)
        id, epoch = self._identity
        sequence = self._sequences.setdefault(partition, 0)
        data = builder.finish(codec=self._codec, producer_id=id, producer_epoch=epoch, base_sequence=sequence)
        return _Batch(partition, data, builder.count)
