"""What a pipeline's process shows to Prometheus: its books and its lag, as ``/metrics`` over HTTP.

Books are read and the cluster is asked when somebody looks. Where the cluster cannot be asked the lag is left out, and
``moldau_pipeline_lag_known`` is 0. Read next: books.py, positions.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from moldau.broker.metrics.text import CONTENT_TYPE, Family, page
from moldau.pipeline import books, positions
from moldau.pipeline.feed.positions import feed_lag
from moldau.pipeline.folder import PipelineFolder
from moldau.pipeline.spec import Pipeline

STATES = ("running", "paused", "failed", "done", "stopped", "lost", "unknown")


def metrics(pipeline: Pipeline, folder: PipelineFolder) -> str:
    """The page: what the books say, and how far behind the pipeline is."""
    return page([*_of_books(pipeline.name, folder), *_of_lag(pipeline, folder)])


def _of_books(name: str, folder: PipelineFolder) -> Iterable[Family]:
    last, state = folder.books.last(), folder.state()
    totals = books.BookTotals() if last is None else last.totals
    records = Family("moldau_pipeline_records_total", "Records by what became of them, and the stage that said so.")
    for topic, of in totals.topics.items():
        for outcome, count in of.items():
            what, _, stage = outcome.partition(":")
            records.add(count, pipeline=name, topic=topic, outcome=what, stage=stage)
    rows = Family("moldau_pipeline_sink_rows_total", "Rows that each sink took, by the books.")
    for sink, count in totals.sinks.items():
        rows.add(count, pipeline=name, sink=sink)
    said = Family("moldau_pipeline_state", "1 for the state that the pipeline is in.")
    for one in STATES:
        said.add(int(state is not None and state.state == one), pipeline=name, state=one)
    single: list[tuple[str, str, float]] = [
        ("moldau_pipeline_read_total", "Records that batches read.", totals.read),
        ("moldau_pipeline_replayed_total", "Dead letters that replays took up again.", totals.replayed),
        ("moldau_pipeline_late_total", "Rows further behind than the pipeline allows.", totals.late),
        ("moldau_pipeline_batches_total", "Lines of the books.", 0 if last is None else last.sequence + 1),
        ("moldau_pipeline_dead_letters", "Dead letters that wait for a replay.",
         books.waiting(totals, folder.books.taken_back())),
        ("moldau_pipeline_books_balance", "1 while every record that was read has an outcome.",
         int(books.balances(totals))),
    ]  # fmt: skip
    if last is not None:
        single += [
            ("moldau_pipeline_last_batch_timestamp_seconds", "When the newest batch began.", last.at_ms / 1000),
            ("moldau_pipeline_last_batch_duration_seconds", "How long the newest batch took.", last.took_ms / 1000),
        ]
    for metric, help, value in single:
        family = Family(metric, help)
        family.add(value, pipeline=name)
        yield family
    yield from (records, rows, said)


def _of_lag(pipeline: Pipeline, folder: PipelineFolder) -> Iterable[Family]:
    lag = Family("moldau_pipeline_lag_offsets", "Offsets between where the pipeline is and the log's end.")
    known = Family("moldau_pipeline_lag_known", "1 when the cluster could be asked for the ends of its logs.")
    if pipeline.source.feed is not None:
        return _of_feed(pipeline, folder, known)
    try:
        found = positions.lags(pipeline, folder)
    except Exception:  # the cluster, its addresses or the topics: scraping goes on, and says that it is not known
        found = None
    known.add(int(found is not None), pipeline=pipeline.name)
    for one in found or ():
        lag.add(one.lag, pipeline=pipeline.name, topic=one.topic, partition=one.partition)
    return [known, lag]


def _of_feed(pipeline: Pipeline, folder: PipelineFolder, known: Family) -> Iterable[Family]:
    lag = Family("moldau_pipeline_lag_versions", "Versions of the table between where the pipeline is and the newest.")
    try:
        found = feed_lag(pipeline, folder)
    except Exception:  # the table cannot be opened: scraping goes on, and says that the lag is not known
        found = None
    known.add(int(found is not None), pipeline=pipeline.name)
    if found is not None:
        lag.add(found.lag, pipeline=pipeline.name, table=found.table)
    return [known, lag]


class NoPort(RuntimeError):
    """Metrics cannot be shown where they are to be; the message says where and why."""


class MetricsServer:
    """``/metrics`` at a port while the ``with`` lasts; port 0 takes one that is free. ``page`` gives the text."""

    def __init__(self, page: Callable[[], str], host: str = "127.0.0.1", port: int = 0) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.partition("?")[0] != "/metrics":
                    self.send_error(404)
                    return
                try:
                    status, text, kind = 200, page(), CONTENT_TYPE
                except Exception as error:  # books that cannot be read: whoever asks is told, the run is not disturbed
                    status, text, kind = 500, f"{type(error).__name__}: {error}\n", "text/plain; charset=utf-8"
                raw = text.encode()
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, format: str, *args: object) -> None:
                """Requests are not logged."""

        try:
            self._server = ThreadingHTTPServer((host, port), Handler)
        except OSError as error:
            raise NoPort(f"metrics cannot be shown at {host}:{port}: {error.strerror}") from None
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_port)

    def __enter__(self) -> MetricsServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
