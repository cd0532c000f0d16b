"""A record of each node in each interval, no larger than a topic takes, whoever does not answer."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from moldau.broker.metrics.text import Family, page
from moldau.cluster.nodes import free_ports
from moldau.model import Code
from moldau.publishing.figures import Figures
from moldau.publishing.pages import VALUE_BYTES_MAX, ask, metrics_record, series
from moldau.publishing.stream import Away, NotTaken
from moldau.wire import batch

PAGES = {1: "127.0.0.1:9308", 2: "127.0.0.1:9309"}


class Topic:
    """Takes batches, or does what it is told first."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.codes: list[Code | None] = []
        self.ids = 0
        self.made = 0

    def partition_for(self, node: int) -> int:
        return 0

    def producer(self) -> tuple[int, int]:
        self.ids += 1
        return self.ids, 0

    def ensure(self) -> None:
        self.made += 1

    def append(self, partition: int, data: bytes) -> Code:
        code = self.codes.pop(0) if self.codes else Code.NONE
        if code is None:
            raise Away("nobody answers")
        if code is Code.NONE:
            self.batches.append(data)
        return code

    def facts(self) -> list[dict[str, object]]:
        return [json.loads(one.value or b"") for data in self.batches for one in batch.records(data)]


class Pages:
    """What pages say; OSError where one does not answer."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = dict.fromkeys(PAGES.values(), "a_total 1\n")

    def __call__(self, where: str, timeout_s: float) -> str:
        if where not in self.texts:
            raise OSError("nobody listens there")
        return self.texts[where]


def figures(topic: Topic, pages: Pages) -> Figures:
    return Figures(topic, now_ms=lambda: 5, ask=pages)


def test_names_with_labels_have_their_values_and_what_is_no_number_has_none() -> None:
    family = Family("b", "Help.")
    family.add(1.5, topic='or"d\\ers', partition=0)
    text = page([Family("a_total", "How many.", 2), family]) + "c NaN\nd +Inf 17\nno line\ne 1e3\n# f 1\n"
    assert series(text) == {
        "a_total": 2,
        'b{topic="or\\"d\\\\ers",partition="0"}': 1.5,
        "c": None,
        "d": None,
        "e": 1000,
    }


def test_what_has_no_room_is_of_partitions_first_then_of_topics_and_is_counted() -> None:
    found: dict[str, float | None] = {}
    for number in range(8_000):
        found[f'kafka_log_log_size{{topic="orders",partition="{number}"}}'] = 10**9 + number
    for number in range(3_000):
        found[f'kafka_server_brokertopicmetrics_bytesin_total{{topic="orders-{number}"}}'] = number
    found['kafka_server_brokertopicmetrics_bytesin_total{topic=""}'] = 1
    found["process_open_fds"] = 3
    value = metrics_record(7, 5, "127.0.0.1:1", found)
    assert len(value) <= VALUE_BYTES_MAX
    fact = json.loads(value)
    names = fact["metrics"].keys()
    assert {"process_open_fds", 'kafka_server_brokertopicmetrics_bytesin_total{topic=""}'} <= names
    assert sum("orders-" in name for name in names) == 3_000
    assert 0 < sum("partition=" in name for name in names) < 8_000
    assert fact["left_out"] + len(names) == len(found)
    assert json.loads(metrics_record(7, 5, "", {"a": 1}, 2)) == {
        "time_ms": 5, "node": 7, "page": "", "missed": 2, "metrics": {"a": 1},
    }  # fmt: skip


def test_each_node_has_a_record_and_a_silent_one_says_so() -> None:
    topic, pages = Topic(), Pages()
    del pages.texts[PAGES[2]]
    one = figures(topic, pages)
    one.look(PAGES)
    assert not one.write()
    assert topic.facts() == [
        {"time_ms": 5, "node": 1, "page": PAGES[1], "metrics": {"a_total": 1}},
        {"time_ms": 5, "node": 2, "page": PAGES[2], "error": "nobody listens there"},
    ]
    one.look({})
    assert (one.waiting, one.written) == (0, 2)


def test_what_nobody_answered_is_sent_again_as_it_was_and_the_rest_waits() -> None:
    topic, pages = Topic(), Pages()
    one = figures(topic, pages)
    one.look(PAGES)
    topic.codes = [None, None]
    for _ in range(2):
        with pytest.raises(Away):
            one.write()
        one.look(PAGES)
    assert one.waiting == 6
    while one.write():
        pass
    assert one.waiting == 0
    assert [fact["node"] for fact in topic.facts()] == [1, 2] * 3
    heads = [batch.read_header(data) for data in topic.batches]
    assert [head.base_sequence for head in heads] == [0, 2]
    assert topic.ids == 1


def test_while_the_cluster_is_away_the_newest_records_wait_and_the_rest_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    most = 10_000
    monkeypatch.setattr("moldau.publishing.figures.WAITING_BYTES_MAX", most)
    topic, pages = Topic(), Pages()
    pages.texts[PAGES[1]] = "".join(f"name_{number} {number}\n" for number in range(50))
    one = figures(topic, pages)
    rounds = 40
    for _ in range(rounds):
        one.look(PAGES)
        assert one._bytes <= most
    while one.write():
        pass
    facts = [fact for fact in topic.facts() if fact["node"] == 1]
    assert len(facts) < rounds
    one.look(PAGES)
    one.write()
    missed = [int(str(fact.get("missed", 0))) for fact in topic.facts() if fact["node"] == 1]
    assert sum(missed) + len(missed) == rounds + 1


def test_refusals_are_told_a_topic_is_made_anew_and_another_producer_goes_on() -> None:
    topic, pages = Topic(), Pages()
    one = figures(topic, pages)
    one.look(PAGES)
    topic.codes = [Code.UNKNOWN_TOPIC_OR_PARTITION, Code.OUT_OF_ORDER_SEQUENCE_NUMBER]
    with pytest.raises(Away):
        one.write()
    assert topic.made == 1
    with pytest.raises(NotTaken, match="2 records of metrics are dropped: OUT_OF_ORDER_SEQUENCE_NUMBER"):
        one.write()
    one.look(PAGES)
    one.write()
    assert (topic.ids, len(topic.facts())) == (2, 2)


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status = 200 if self.path == "/metrics" else 404
        self.send_response(status)
        self.end_headers()
        self.wfile.write(b"a 1\n")

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_a_page_is_asked_over_http_and_why_there_is_none_is_said() -> None:
    server = HTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        assert ask(f"127.0.0.1:{server.server_port}", 5) == "a 1\n"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    (port,) = free_ports(1)
    with pytest.raises(OSError, match="nobody listens there"):
        ask(f"127.0.0.1:{port}", 5)
    with pytest.raises(OSError, match="is no page of metrics"):
        ask("127.0.0.1:port", 5)


class Trickles(Answers):
    """A page that never ends; what comes of it comes within any timeout of a socket."""

    pauses_s = 0.0

    def do_GET(self) -> None:
        try:
            self.send_response(200)
            self.end_headers()
            while True:
                self.wfile.write(b"a 1\n" * (1 if self.pauses_s else 10_000))
                time.sleep(self.pauses_s)
        except OSError:
            pass  # who asked has gone


class HeadersForEver(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        try:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            while True:
                self.wfile.write(b"X: y\r\n")
                time.sleep(0.1)
        except OSError:
            pass

    def log_message(self, format: str, *args: object) -> None:
        pass


class TricklesSlowly(Trickles):
    pauses_s = 0.02


@pytest.mark.parametrize(
    ("answers", "why"),
    [(TricklesSlowly, "is not through in time"), (HeadersForEver, "is not through in time"), (Trickles, "has more")],
)
def test_a_page_that_never_ends_costs_its_own_node_no_more_than_its_time(
    answers: type[BaseHTTPRequestHandler], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The metrics of all nodes waited for it, for ever, and so did whoever ended the publisher."""
    monkeypatch.setattr("moldau.publishing.pages.PAGE_BYTES_MAX", 1 << 20)
    server = HTTPServer(("127.0.0.1", 0), answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        topic = Topic()
        page = f"127.0.0.1:{server.server_port}"
        one = Figures(topic, now_ms=lambda: 5, timeout_s=0.3 if "time" in why else 60)
        one.look({1: page})
        one.write()
        [fact] = topic.facts()
        assert why in str(fact["error"])
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
