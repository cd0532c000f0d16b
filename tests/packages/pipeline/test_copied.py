"""Offsets of a topic and of its copy: translated never past what was copied, and never past an unread record."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from moldau.pipeline.books import BookLine, BookTotals, Count
from moldau.pipeline.copied import CopyMarks, KeptMarks, Mark, TargetLogs, translated
from moldau.pipeline.folder import BrokenPipelineFile, PipelineFolder
from moldau.pipeline.lint import lint
from moldau.pipeline.reading import read_text
from moldau.pipeline.spec import Pipeline, TopicSink
from moldau.spark.tables import BatchKey

FILE = """\
pipeline: copy
cluster: here:9092
source: {topics: orders}
decode: {format: raw}
sinks:
  - {topic: orders, cluster: "there:9092", key: _key, value: value, keep: [partition], groups: ["*"]}
"""


def test_an_offset_is_that_of_the_last_mark_before_it_or_exact_where_each_record_was_written_once() -> None:
    marks = [Mark({0: 10}, {0: 100}), Mark({0: 20}, {0: 110}, {0}), Mark({0: 30}, {0: 125})]
    assert [translated(marks, 0, at) for at in (0, 10, 15, 20, 29, 30, 99)] == [100, 100, 105, 110, 110, 125, 125]
    assert translated(marks, 1, 5) is None
    assert translated([], 0, 5) is None
    later = [Mark({0: 1}, {0: 1}), Mark({0: 2, 1: 0}, {0: 2, 1: 7}), Mark({0: 3, 1: 5}, {0: 3, 1: 12}, {1})]
    assert [translated(later, 1, at) for at in (0, 3, 5)] == [7, 10, 12], "a partition that was added"


@pytest.mark.parametrize(("before", "begins"), [({0: 5}, 0), ({0: 5, 1: 7}, 7)])
def test_a_group_of_a_partition_that_was_added_misses_nothing_of_the_batch_that_read_it_first(
    pipeline: Pipeline, before: dict[int, int], begins: int
) -> None:
    """Where that batch begins, the source does not tell of the partition: it is read from its first record on."""
    store, target = PipelineFolder(pipeline).store, dict(before)
    copied = CopyMarks(pipeline, store, lambda bootstrap, topic: TargetLogs(dict(target)))
    key = BatchKey("q", 0, ('{"orders": {"0": 5}}',), ('{"orders": {"0": 6, "1": 30}}',))
    copied.begins(key, None)
    target = {0: 6, 1: begins + 30}
    copied.ended(line_of(key, 31))
    (sink,) = (one for one in pipeline.sinks if isinstance(one, TopicSink))
    assert [translated(KeptMarks(store, sink), 1, at) for at in (0, 10, 29)] == [begins] * 3
    assert translated(KeptMarks(store, sink), 1, 30) == begins + 30


def test_a_partition_that_nothing_was_copied_of_or_that_the_target_lacks_is_not_copied() -> None:
    assert translated([Mark({0: 1}, {0: 1}), Mark({0: 2}, {0: 2, 1: 0})], 1, 5) is None
    assert translated([Mark({0: 1}, {0: 1}), Mark({0: 2, 1: 9}, {0: 2})], 1, 5) is None


class Log:
    """A source with holes and a target with what batches wrote, cut off at random."""

    def __init__(self, turns: random.Random) -> None:
        self.turns = turns
        self.source: list[int] = []
        self.target: list[int] = []
        self.end = 0

    def grow(self, *, holes: bool) -> None:
        for _ in range(self.turns.randint(0, 20)):
            if not holes or self.turns.random() > 0.2:
                self.source.append(self.end)
            self.end += 1


def line_of(key: BatchKey, read: int) -> BookLine:
    counts = [Count("orders", "ok", None, read, "orders-0@0")] if read else []
    return BookLine(
        sequence=-1, kind="batch", batch=key.batch_id, query=key.query_id, at_ms=0, took_ms=0, start=key.start,
        end=key.end, counts=counts, drift=[], rows_out=read, late=0, sinks={}, dead=0, totals=BookTotals(),
    )  # fmt: skip


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    found = read_text(FILE, {}, tmp_path)
    assert found.pipeline is not None, found.problems
    assert lint(found.pipeline, found) == []
    return found.pipeline


@pytest.mark.parametrize("seed", range(30))
def test_whatever_is_cut_off_a_translated_group_misses_nothing_that_it_had_not_read(
    seed: int, pipeline: Pipeline
) -> None:
    turns = random.Random(seed)
    holes = seed % 2 == 1
    log, store = Log(turns), PipelineFolder(pipeline).store
    log.target = [-1] * turns.randint(0, 5)  # what was there before
    at, last = 0, None
    for batch in range(12):
        log.grow(holes=holes)
        key = BatchKey("q", batch, (f'{{"orders":{{"0":{at}}}}}',), (f'{{"orders":{{"0":{log.end}}}}}',))
        rows = [one for one in log.source if at <= one < log.end]
        while True:  # a process that is cut off anywhere, and begins the batch again
            copied = CopyMarks(pipeline, store, lambda bootstrap, topic: TargetLogs({0: len(log.target)}))
            copied.begins(key, last)
            if turns.random() < 0.3:
                log.target += rows[: turns.randint(0, len(rows))]
                continue
            log.target += rows
            if turns.random() < 0.2:
                continue
            last = line_of(key, len(rows))
            if turns.random() < 0.7:
                copied.ended(last)
            break
        at = log.end
    marks = KeptMarks(store, pipeline.sinks[0]) if isinstance(pipeline.sinks[0], TopicSink) else None
    assert marks is not None
    exact = 0
    for offset in range(at + 1):
        found = translated(marks, 0, offset)
        assert found is not None
        assert found <= len(log.target)
        unread = {one for one in log.source if offset <= one < at}
        assert unread <= set(log.target[found:]), (offset, found)
        exact += [one for one in log.target[found:] if one >= 0][:1] == sorted(unread)[:1]
    assert exact


def test_a_batch_with_steps_or_rows_left_out_is_never_told_one_by_one(pipeline: Pipeline) -> None:
    store, target = PipelineFolder(pipeline).store, 0
    key = BatchKey("q", 0, ('{"orders":{"0":0}}',), ('{"orders":{"0":4}}',))
    copied = CopyMarks(pipeline, store, lambda bootstrap, topic: TargetLogs({0: target}))
    copied.begins(key, None)
    target = 4
    copied.ended(replace(line_of(key, 4), rows_out=3))
    marks = KeptMarks(store, TopicSink(topic="orders", cluster="there:9092"))
    assert [translated(marks, 0, at) for at in range(5)] == [0, 0, 0, 0, 4]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('cluster: "there:9092", ', ""), "they are translated to another cluster"),
        (("keep: [partition], ", ""), "a copy needs keep: [partition]"),
        (("topics: orders", "topics: [orders, other]"), "a source of one topic is needed"),
        (("topics: orders", "topics: orders, options: {minPartitions: 9}"), "writes a partition out of order"),
    ],
)  # fmt: skip
def test_groups_need_a_copy_of_one_topic_in_order(change: tuple[str, str], message: str) -> None:
    found = read_text(FILE.replace(*change), {})
    assert found.draft is not None
    problems = [one.message for one in lint(found.draft, found)]
    assert any(message in one for one in problems), problems


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"source": {"0": 1}}', b'{"source": {"0": "1"}, "target": {}, "exact": []}',
     b'{"source": {"zero": 1}, "target": {}, "exact": []}', b"\xff"],
)  # fmt: skip
def test_a_mark_that_is_damaged_is_named_by_whoever_needs_it(pipeline: Pipeline, content: bytes) -> None:
    """A run that marks the next batch, and whoever translates groups."""
    folder, key = PipelineFolder(pipeline), BatchKey("q", 1, ('{"orders": {"0": 5}}',), ('{"orders": {"0": 9}}',))
    (sink,) = (sink for sink in pipeline.sinks if isinstance(sink, TopicSink))
    marks = KeptMarks(folder.store, sink)
    marks.add(1, Mark({0: 5}, {0: 7}))
    (file,) = Path(folder.store.base).rglob(f"{1:012d}.json")
    file.write_bytes(content)
    with pytest.raises(BrokenPipelineFile, match=rf"{file}.*which offsets.*moldau pipeline reset"):
        CopyMarks(pipeline, folder.store, lambda cluster, topic: TargetLogs({0: 7})).begins(key, None)
    with pytest.raises(BrokenPipelineFile, match=f"{file}"):
        translated(KeptMarks(folder.store, sink), 0, 5)


@pytest.mark.parametrize("cut_off", [False, True])
def test_a_group_is_not_translated_by_the_logs_of_a_target_that_was_made_anew(
    pipeline: Pipeline, cut_off: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would stand beyond the end, or be told the place of another record once there are as many again."""
    store = PipelineFolder(pipeline).store
    (sink,) = (one for one in pipeline.sinks if isinstance(one, TopicSink))
    ends, last = {0: 0}, None
    copied = CopyMarks(pipeline, store, lambda _cluster, _topic: TargetLogs(dict(ends)))

    def offsets(at: int) -> tuple[str, ...]:
        return (f'{{"orders": {{"0": {at}}}}}',)

    for batch, at in enumerate([0, 100, 200, 210, 220, 230]):
        key = BatchKey("q", batch, offsets(at), offsets(at + 100 if at < 200 else at + 10))
        copied.begins(key, last)
        if batch == 3:
            ends[0] = 0  # made anew while the batch was written
        ends[0] += 100 if at < 200 else 10
        last = line_of(key, 100 if at < 200 else 10)
        if batch == 3 and cut_off:
            with monkeypatch.context() as patched:
                patched.setattr(KeptMarks, "add", lambda _self, _batch, _mark: 1 / 0)
                with pytest.raises(ZeroDivisionError):
                    copied.ended(last)
            copied = CopyMarks(pipeline, store, lambda _cluster, _topic: TargetLogs(dict(ends)))
        copied.ended(last)
    marks = KeptMarks(store, sink)
    assert ends == {0: 30}, "the copies of 210 to 239"
    assert [translated(marks, 0, at) for at in (0, 150, 205, 210, 229, 230, 240)] == [0, 0, 0, 0, 0, 20, 30]


def test_a_target_that_was_made_anew_and_has_grown_past_its_predecessor_is_told_by_its_id(pipeline: Pipeline) -> None:
    """As one that is deleted while the pipeline is stopped: the next batch may have more records than all before."""
    store, logs = PipelineFolder(pipeline).store, TargetLogs({0: 0}, "A")
    (sink,) = (one for one in pipeline.sinks if isinstance(one, TopicSink))
    first = BatchKey("q", 0, ('{"orders": {"0": 0}}',), ('{"orders": {"0": 100}}',))
    second = BatchKey("q", 1, first.end, ('{"orders": {"0": 1100}}',))
    copied = CopyMarks(pipeline, store, lambda _cluster, _topic: logs)
    copied.begins(first, None)
    logs = TargetLogs({0: 100}, "A")
    copied.ended(line_of(first, 100))
    assert translated(KeptMarks(store, sink), 0, 100) == 100
    logs = TargetLogs({0: 1000}, "B")
    assert not KeptMarks(store, sink).are_of(logs), "while the batch is under way"
    copied = CopyMarks(pipeline, store, lambda _cluster, _topic: logs)
    copied.begins(second, line_of(first, 100))
    copied.ended(line_of(second, 1000))
    marks = KeptMarks(store, sink)
    assert marks.are_of(logs)
    assert [translated(marks, 0, at) for at in (50, 100, 700)] == [0, 0, 0], "record 100 is the first one there"


def test_marks_of_before_they_had_the_targets_id_are_read(pipeline: Pipeline) -> None:
    old = Mark.from_json(b'{"source": {"0": 1}, "target": {"0": 2}, "exact": [0]}')
    assert old == Mark({0: 1}, {0: 2}, frozenset({0}))
    assert Mark.from_json(Mark({0: 1}, {0: 2}, topic_id="A").to_json()).topic_id == "A"
