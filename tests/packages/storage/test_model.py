"""A log against a list: whatever is done to both, they hold the same batches at the same offsets."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from moldau.model import Code
from moldau.storage import Log, LogConfig, LogDirs, OffsetOutOfRange
from moldau.storage.log_state import NewFile
from moldau.wire.batch import headers
from tests.packages.storage.faulty_disk import FaultyDisk
from tests.packages.storage.test_log import TOPIC_ID, P, batch, check_files

CONFIGS = (
    LogConfig(internal_segment_bytes=5000, index_interval_bytes=200),
    LogConfig(internal_segment_bytes=8000, index_interval_bytes=0, segment_index_bytes=40),
    LogConfig(segment_ms=40, internal_segment_bytes=100_000, index_interval_bytes=500),
)


class LogAgainstList(RuleBasedStateMachine):
    @initialize(config=st.sampled_from(CONFIGS), open_files=st.sampled_from((1, 2, 1000)), has_workers=st.booleans())
    def begin(self, config: LogConfig, open_files: int, has_workers: bool) -> None:
        self.config = config
        self.open_files = open_files
        self.disk = FaultyDisk()
        self.dirs = LogDirs(self.disk, ["/d"], open_files=open_files)
        self.dirs.load(lambda _: config)
        self.has_workers = has_workers
        self.opening: NewFile | None = None
        """Has run, and is still to be ended."""
        self._hear()
        self.log: Log = self.dirs.create(P, TOPIC_ID, config)
        self.batches: list[tuple[int, int, bytes]] = []  # base offset, next offset, bytes
        self.start = self.end = self.epoch = self.clock = 0

    def _hear(self) -> None:
        """Where there are workers, they make the files of new segments when a rule says so."""
        if self.has_workers:
            self.dirs.dirs[0].on_file_wanted = lambda log: None

    @precondition(lambda self: self.log.awaits_file and self.opening is None)
    @rule()
    def make_file(self) -> None:
        self.opening = self.log.opening
        assert self.opening is not None
        self.opening.run()

    @precondition(lambda self: self.opening is not None)
    @rule()
    def end_making(self) -> None:
        assert self.opening is not None
        self.opening.end()
        self.opening = None

    @rule(counts=st.lists(st.integers(1, 5), min_size=1, max_size=3), size=st.integers(0, 300))
    def append(self, counts: list[int], size: int) -> None:
        self.clock += 1
        whole = b"".join(batch(count, timestamp=self.clock, size=size) for count in counts)
        data = bytearray(whole)
        result = self.log.append_leader(data, self.epoch, 0)
        assert result[:3] == (Code.NONE, self.end, self.end + sum(counts) - 1)
        for position, header in headers(data):
            self.batches.append(
                (header.base_offset, header.next_offset, bytes(data[position : position + header.size]))
            )
        self.end += sum(counts)

    @rule(gap=st.integers(0, 3), count=st.integers(1, 4))
    def follow(self, gap: int, count: int) -> None:
        """A leader's compacted log has gaps."""
        data = batch(count, timestamp=self.clock, base_offset=self.end + gap, leader_epoch=self.epoch)
        assert self.log.append_follower(bytes(data)).code is Code.NONE
        self.batches.append((self.end + gap, self.end + gap + count, bytes(data)))
        self.end += gap + count

    @rule()
    def new_epoch(self) -> None:
        self.epoch += 1
        self.log.assign_epoch(self.epoch, self.end)

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        offset = self.start + int((self.end - self.start) * share)
        assert self.log.truncate_to(offset) == (offset < self.end)
        if offset < self.end:
            self.batches = [entry for entry in self.batches if entry[1] <= offset]
            self.end = max([self.start, *(after for _, after, _ in self.batches)])

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        self.log.high_watermark = settled = self.log.settled_end
        self.start = self.start + int((settled - self.start) * share)
        assert self.log.advance_log_start(self.start) is Code.NONE
        self.log.retention_pass(0)

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def flush(self) -> None:
        self.log.flush()
        assert self.log.recovery_point == self.log.log_end_offset
        self.dirs.checkpoint()

    @rule(ahead=st.integers(0, 5))
    def start_over(self, ahead: int) -> None:
        self.log.truncate_fully_at(self.end + ahead)
        self.batches = []
        self.start = self.end = self.end + ahead

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        settled = self.log.settled_end
        if clean:
            self.dirs.close()
        else:
            self.dirs.checkpoint()  # so that the log's start is known: it may go back by one checkpoint otherwise
        self.disk = self.disk.process_killed()
        self.dirs = LogDirs(self.disk, ["/d"], open_files=self.open_files)
        self.dirs.load(lambda _: self.config)
        assert not self.dirs.findings
        assert self.disk.open_files == 0
        log = self.dirs.logs[P]
        assert log.log_start_offset == self.start
        if not clean:  # what waited for its file was acknowledged to nobody
            assert settled <= log.log_end_offset <= self.end
            self.batches = [entry for entry in self.batches if entry[1] <= log.log_end_offset]
            self.end = max([self.start, settled, *(after for _, after, _ in self.batches)])
        assert log.log_end_offset == self.end
        self.opening = None
        self._hear()
        check_files(log)
        self.log = log

    @rule(share=st.floats(0, 1), size=st.integers(0, 1500), limit=st.floats(0, 1), one=st.booleans())
    def read(self, share: float, size: int, limit: float, one: bool) -> None:
        offset = self.start + int((self.end - self.start) * share)
        up_to = offset + int((self.end - offset) * limit)
        data = self.log.read(offset, size, up_to=up_to, at_least_one=one)
        wanted = [entry for entry in self.batches if entry[1] > offset and entry[0] < up_to and offset < up_to]
        read = [data[position : position + header.size] for position, header in headers(data)]
        assert sum(map(len, read)) == len(data)
        assert read == [entry[2] for entry in wanted[: len(read)]]
        assert len(data) <= size or (one and len(read) == 1)
        if wanted and (one or len(wanted[0][2]) + 5000 <= size):
            assert read

    @rule(back=st.integers(0, 40))
    def by_time(self, back: int) -> None:
        stamp = self.clock - back
        found = self.log.offset_for_timestamp(stamp)
        expected = None
        for base, _, data in self.batches:
            header = next(headers(data))[1]
            for index in range(header.count):  # the n-th record of a batch is n ms younger than its first
                if header.base_timestamp + index >= stamp and base + index >= self.start and expected is None:
                    expected = base + index
        assert (found.offset if found else None) == expected

    @precondition(lambda self: hasattr(self, "log"))
    @invariant()
    def agrees(self) -> None:
        log = self.log
        assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
        assert log.size == sum(segment.size for segment in log.segments)
        assert self.disk.open_files <= self.open_files + 1 + (self.opening is not None)
        assert log.recovery_point <= log.settled_end <= log.log_end_offset
        assert log.dir.unwritten == (log.active.size if log.awaits_file else 0)
        live = [entry for entry in self.batches if entry[1] > self.start]
        offset, found = self.start, []
        while offset < self.end:
            data = log.read(offset, 700)
            if not data:
                break
            for position, header in headers(data):
                found.append(data[position : position + header.size])
                offset = header.next_offset
        assert found == [entry[2] for entry in live]
        for wrong in (self.start - 1, self.end + 1):
            try:
                log.read(wrong, 1)
            except OffsetOutOfRange:
                continue
            raise AssertionError(f"{wrong} can be read")


LogAgainstList.TestCase.settings = settings(
    max_examples=40, report_multiple_bugs=False, stateful_step_count=30, deadline=None
)
test_a_log_holds_what_a_list_would_hold = LogAgainstList.TestCase
