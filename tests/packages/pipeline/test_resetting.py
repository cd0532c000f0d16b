"""A reset that is killed at any of its steps: nothing else is done with the pipeline until it is called again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from moldau.pipeline import audit
from moldau.pipeline.books import Books, SinkRows
from moldau.pipeline.folder import CutOffReset, PipelineFolder
from moldau.pipeline.positions import _sink_steps, _unfinished_steps, differences, verified
from moldau.pipeline.resetting import reset
from moldau.pipeline.running import Runner
from moldau.pipeline.spec import Pipeline, TableSink
from moldau.pipeline.taken_back import taken_back
from moldau.spark.tables import Table
from tests.packages.pipeline.test_unfinished import KEY, QUERY, begin_checkpoint, book, pipeline_of, put

TO = '{"t": {"0": 3}}'
STEPS = 6
"""What is noted as taken back, two tables, where to begin, the checkpoint, and that all is done."""


class Killed(BaseException):
    """Stands for SIGKILL."""


def kill_before(step: int, patched: pytest.MonkeyPatch) -> None:
    """End the program before one of the steps of a reset."""
    left = [step]

    def dies_in_turn(made: Callable[..., object]) -> Callable[..., object]:
        def act(*given: object, **named: object) -> object:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return made(*given, **named)

        return act

    for owner, names in (
        (Books, ["take_back"]), (Table, ["reset"]),
        (PipelineFolder, ["begin_at", "set_checkpoint_aside", "end_reset"]),
    ):  # fmt: skip
        for name in names:
            patched.setattr(owner, name, dies_in_turn(getattr(owner, name)))


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    """A pipeline of three batches."""
    found = pipeline_of(tmp_path)
    folder = PipelineFolder(found)
    begin_checkpoint(folder)
    for batch in range(3):
        ends = (f'{{"t": {{"0": {3 * batch}}}}}', f'{{"t": {{"0": {3 * batch + 3}}}}}')
        key = KEY._replace(query_id=QUERY, batch_id=batch, start=ends[:1], end=ends[1:])
        for name in ("orders", "second"):
            put(tmp_path / name, "a", pa.table({"id": [1, 2, 3]}), key)
        line = book(PipelineFolder(pipeline_of(tmp_path, state="model")), batch)
        sinks = {str(tmp_path / name): SinkRows(3) for name in ("orders", "second")}
        folder.books.add(replace(line, query=QUERY, start=key.start, end=key.end, sinks=sinks))
    return found


def take_back(pipeline: Pipeline, *, killed: bool = False) -> None:
    """Take both tables back to the end of the first batch; ``killed``: before their ledgers say so."""
    for sink in pipeline.sinks:
        assert isinstance(sink, TableSink)
        table = Table(sink.table, pipeline="a")
        if killed:
            table.format.rewind("a", 0)
        else:
            table.rewind(0)


@pytest.mark.parametrize("killed", [False, True])
def test_tables_that_were_taken_back_are_told_also_where_that_was_killed_before_their_ledgers_said_so(
    pipeline: Pipeline, *, killed: bool
) -> None:
    """`plan` said that a run goes on, which was refused, and the reset did not note the rows: they were missed."""
    take_back(pipeline, killed=killed)
    folder = PipelineFolder(pipeline)
    told = [one for one in _sink_steps(pipeline, folder) if one.what.startswith("table ")]
    assert [one.changes for one in told] == [True, True]
    for one in told:
        assert 'a run is refused; `moldau pipeline reset FILE --to \'{"t": {"0": 3}}\'` begins where it ends' in one.how
    back = taken_back(pipeline, folder)
    assert back.rows == {sink.name: 6 for sink in pipeline.sinks}
    reset(pipeline, folder, TO, back)
    last = folder.books.last()
    assert last is not None
    assert differences(verified(pipeline, last.totals, (), folder.books.taken_back())) == []


@pytest.mark.parametrize("step", range(STEPS))
def test_a_reset_that_was_killed_keeps_all_else_from_the_pipeline_until_it_is_called_again(
    pipeline: Pipeline, step: int
) -> None:
    """A run went on where the checkpoint was, and tables that had been taken back took it: what lay between was in none
    of them, was not read again, and the books said that they balance."""
    take_back(pipeline)
    folder = PipelineFolder(pipeline)
    with pytest.MonkeyPatch.context() as patched:
        kill_before(step, patched)
        with pytest.raises(Killed):
            reset(pipeline, folder, TO, taken_back(pipeline, folder))
    with pytest.raises(CutOffReset, match=r"reset to \{.*\} was cut off.*`moldau pipeline reset FILE --to"):
        Runner(pipeline, once=True).run()
    with pytest.raises(CutOffReset), PipelineFolder(pipeline).locked():
        pass
    assert any("was cut off" in one for one in audit.problems(PipelineFolder(pipeline)))
    assert any("until then a run is refused" in one.how for one in _unfinished_steps(pipeline, folder))

    again = PipelineFolder(pipeline)
    with again.locked(after_cut_off_reset=True):
        reset(pipeline, again, TO, taken_back(pipeline, again))
    with again.locked():
        assert (again.start(), again.has_checkpoint(), audit.problems(again)) == (TO, False, [])
    assert again.books.taken_back().rows == {sink.name: 6 for sink in pipeline.sinks}


def test_a_reset_has_no_more_steps_than_are_killed_here(pipeline: Pipeline) -> None:
    take_back(pipeline)
    folder = PipelineFolder(pipeline)
    with pytest.MonkeyPatch.context() as patched:
        kill_before(STEPS, patched)
        reset(pipeline, folder, TO, taken_back(pipeline, folder))
    assert folder.cut_off_reset() is None


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"x"])
def test_a_note_of_a_reset_that_is_damaged_is_one_all_the_same(pipeline: Pipeline, content: bytes) -> None:
    folder = PipelineFolder(pipeline)
    folder.store.write("resetting.json", content)
    with pytest.raises(CutOffReset, match="--to 'POSITION'"), folder.locked():
        pass
