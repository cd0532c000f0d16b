"""The metrics of nodes as records of a topic: one of each node in each interval, also when its page does not answer.

Intervals begin at the multiples of their length on the machine's clock, and a publisher begins with the first one
after its start: no other publisher, ended before, has asked for that, so that no interval of a node is in the topic
twice. While the cluster is away records wait, the newest ``WAITING_BYTES_MAX`` of them; what was dropped the next
record of that node counts.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import suppress

from moldau.model import Code
from moldau.model.named import NamedTuple
from moldau.model.protocol import Protocol
from moldau.publishing.pages import Asked, ask, metrics_record, series, silence_record
from moldau.publishing.records import key_of
from moldau.publishing.stream import Away, NotTaken
from moldau.wire.batch import Builder
from moldau.wire.compression import Codec

WAITING_BYTES_MAX = 8 << 20
BATCH_BYTES = 768 << 10
PAGE_S = 5.0
"""How long a page may take, if the interval is not shorter."""
NO_PAGE = "its settings name no http.listener"
AT_ONCE = 16
"""Pages that are asked at the same time."""


class Intervals:
    """When pages are to be asked; times are the machine's clock, in ms."""

    def __init__(self, every_ms: int, now_ms: int) -> None:
        self.every_ms = every_ms
        self._last_ms = now_ms

    def take(self, now_ms: int) -> int | None:
        """The multiple that is due now, each once; None when none is. One that nobody came for in its time is left
        out. A clock that was set back by more than an interval counts anew."""
        if self._is_set_back(now_ms):
            self._last_ms = now_ms
        due_ms = now_ms - now_ms % self.every_ms
        if due_ms <= self._last_ms:
            return None
        self._last_ms = due_ms
        return due_ms

    def left_ms(self, now_ms: int) -> int:
        """How long until ``take`` is to be called again, 0 or less when it is time."""
        if self._is_set_back(now_ms):
            return 0
        return (self._last_ms // self.every_ms + 1) * self.every_ms - now_ms

    def _is_set_back(self, now_ms: int) -> bool:
        return now_ms < self._last_ms - self.every_ms


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
    records: tuple[_Waiting, ...]


class Figures:
    """Asks pages (``look``) and writes what they said (``write``); one thread does both."""

    def __init__(
        self,
        topic: MetricsTopic,
        *,
        every_ms: int | None = None,
        codec: Codec = Codec.GZIP,
        timeout_s: float = PAGE_S,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        ask: Callable[[str, float], str] = ask,
    ) -> None:
        self.written = 0
        self._topic, self._every_ms, self._codec, self._timeout_s = topic, every_ms, codec, timeout_s
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
        return len(self._waiting) + (len(self._sending.records) if self._sending is not None else 0)

    def look(self, pages: Mapping[int, str], due_ms: int | None = None) -> None:
        """Ask the page of each node, all at once; a record for each waits then, also of a node without a page.
        ``due_ms``: the interval that they are asked for."""
        for one in self._records(pages, due_ms):
            self._waiting.append(one)
            self._bytes += len(one.value)
        while self._bytes > WAITING_BYTES_MAX:
            dropped = self._waiting.popleft()
            self._bytes -= len(dropped.value)
            self._miss(dropped)

    def _miss(self, dropped: _Waiting) -> None:
        self._missed[dropped.node] += 1 + dropped.missed

    def _records(self, pages: Mapping[int, str], due_ms: int | None) -> list[_Waiting]:
        """A record of each page. Who ends the process waits for none of them: a pool's threads would be."""
        left = deque(pages.items())
        found: dict[int, _Waiting | Exception] = {}

        def ask_some() -> None:
            while left:
                with suppress(IndexError):  # another thread has taken the last
                    node, page = left.popleft()
                    try:
                        found[node] = self._record(node, page, due_ms)
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

    def _record(self, node: int, page: str, due_ms: int | None) -> _Waiting:
        asked = Asked(node, self._now_ms(), page, due_ms, self._every_ms, self._missed.pop(node, 0))
        try:
            found = series(self._ask(page, self._timeout_s)) if page else None
            value = silence_record(asked, NO_PAGE) if found is None else metrics_record(asked, found)
        except OSError as error:
            value = silence_record(asked, error.strerror or str(error) or type(error).__name__)
        return _Waiting(node, asked.time_ms, value, asked.missed)

    def write(self) -> bool:
        """Write some of what waits; whether more does. After Away the same is tried again; NotTaken drops it, which
        the next records count."""
        if self._sending is None:
            if not self._waiting:
                return False
            self._sending = self._take()
        sending = self._sending
        code = self._topic.append(sending.partition, sending.data)
        if code in (Code.NONE, Code.DUPLICATE_SEQUENCE_NUMBER):
            count = len(sending.records)
            self._sequences[sending.partition] = (self._sequences[sending.partition] + count) & 0x7FFFFFFF
            self.written += count
            self._sending = None
            return bool(self._waiting)
        if code is Code.UNKNOWN_TOPIC_OR_PARTITION:
            self._topic.ensure()
            if self._topic.partition_for(sending.records[0].node) != sending.partition:
                self._put_back(sending)  # it was made anew with fewer of them, and this one never comes again
            raise Away("the topic of metrics was not there")
        if code in (Code.OUT_OF_ORDER_SEQUENCE_NUMBER, Code.UNKNOWN_PRODUCER_ID, Code.INVALID_PRODUCER_EPOCH):
            self._put_back(sending)  # a batch that is in the topic is answered as a duplicate, as one is sent at a time
            raise Away(f"records of metrics: {code.name}; they go on under another producer")
        self._sending = None
        for one in sending.records:
            self._miss(one)
        raise NotTaken(f"{len(sending.records)} records of metrics are dropped: {code.name}")

    def _put_back(self, sending: _Batch) -> None:
        self._sending = self._identity = None
        self._waiting.extendleft(reversed(sending.records))
        self._bytes += sum(len(one.value) for one in sending.records)

    def _take(self) -> _Batch:
        """A batch of the oldest records, all of one partition."""
        partition = self._topic.partition_for(self._waiting[0].node)
        if self._identity is None:
            self._identity, self._sequences = self._topic.producer(), {}
        builder, taken = Builder(), list[_Waiting]()
        while self._waiting and (not builder.count or builder.size + len(self._waiting[0].value) < BATCH_BYTES):
            one = self._waiting[0]
            if self._topic.partition_for(one.node) != partition:
                break
            builder.append(one.at_ms, key_of(one.node), one.value)
            taken.append(self._waiting.popleft())
            self._bytes -= len(one.value)
        id, epoch = self._identity
        sequence = self._sequences.setdefault(partition, 0)
        data = builder.finish(codec=self._codec, producer_id=id, producer_epoch=epoch, base_sequence=sequence)
        return _Batch(partition, data, tuple(taken))
