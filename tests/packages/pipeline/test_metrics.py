"""What a pipeline shows to Prometheus, also while the cluster cannot be asked."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path

import pytest

from moldau.pipeline.books import BATCH, BookLine, BookTotals, Count, SinkRows
from moldau.pipeline.folder import PipelineFolder
from moldau.pipeline.metrics import MetricsServer, metrics
from moldau.pipeline.reading import read_text


def test_books_and_state_are_shown_and_a_lag_that_is_not_known_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from moldau.pipeline import positions

    text = f"pipeline: a\nfolder: {tmp_path / 'a'}\nsource: {{topics: b}}\nsinks: [{{table: /t}}]\n"
    pipeline = read_text(text, {}).pipeline
    assert pipeline is not None
    folder = PipelineFolder(pipeline)
    folder.say("done")
    counts = [Count("b", "ok", None, 5, "b-0@0"), Count("b", "dlq", "decode", 2, "b-0@5")]
    folder.books.add(
        BookLine(sequence=-1, kind=BATCH, batch=0, query="q", at_ms=1500, took_ms=20, start=None, end=None,
                 counts=counts, drift=[], rows_out=5, late=1, sinks={"/t": SinkRows(5)}, dead=2, totals=BookTotals())
    )  # fmt: skip
    monkeypatch.setattr(positions, "lags", lambda *_: [positions.PipelineLag("b", 1, 7, 0, 12)])
    lines = metrics(pipeline, folder).splitlines()
    assert {
        'moldau_pipeline_records_total{pipeline="a",topic="b",outcome="ok",stage=""} 5',
        'moldau_pipeline_records_total{pipeline="a",topic="b",outcome="dlq",stage="decode"} 2',
        'moldau_pipeline_read_total{pipeline="a"} 7', 'moldau_pipeline_books_balance{pipeline="a"} 1',
        'moldau_pipeline_sink_rows_total{pipeline="a",sink="/t"} 5', 'moldau_pipeline_dead_letters{pipeline="a"} 2',
        'moldau_pipeline_last_batch_timestamp_seconds{pipeline="a"} 1.5', 'moldau_pipeline_late_total{pipeline="a"} 1',
        'moldau_pipeline_state{pipeline="a",state="done"} 1', 'moldau_pipeline_lag_known{pipeline="a"} 1',
        'moldau_pipeline_lag_offsets{pipeline="a",topic="b",partition="1"} 5',
    } <= set(lines)  # fmt: skip

    def unreachable(*_: object) -> None:
        raise OSError("no cluster")

    monkeypatch.setattr(positions, "lags", unreachable)
    lines = metrics(pipeline, folder).splitlines()
    assert 'moldau_pipeline_lag_known{pipeline="a"} 0' in lines
    assert not any(line.startswith("moldau_pipeline_lag_offsets{") for line in lines)


def test_the_page_is_served_and_a_page_that_fails_does_not_end_the_server() -> None:
    pages = iter(["a 1\n"])
    with MetricsServer(lambda: next(pages)) as server:
        place = f"http://127.0.0.1:{server.port}"
        with urllib.request.urlopen(f"{place}/metrics", timeout=60) as answer:
            assert (answer.read(), answer.headers["Content-Type"]) == (
                b"a 1\n",
                "text/plain; version=0.0.4; charset=utf-8",
            )
        for path, status in (("/metrics", 500), ("/", 404)):
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(place + path, timeout=60)
            with caught.value as refused:
                assert refused.code == status
