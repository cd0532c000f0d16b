"""A record of each node in each interval, no larger than a topic takes, whoever does not answer."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.broker.metrics.text import Family, page
from moldau.cluster.nodes import free_ports
from moldau.model import Code
from moldau.publishing.figures import Figures, Intervals
from moldau.publishing.pages import VALUE_BYTES_MAX, Asked, ask, metrics_record, series
from moldau.publishing.stream import Away, NotTaken
from moldau.wire import batch
from tests.packages.publishing.doubles import Killed, MemoryTopic

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
    value = metrics_record(Asked(7, 5, "127.0.0.1:1"), found)
    assert len(value) <= VALUE_BYTES_MAX
    fact = json.loads(value)
    names = fact["metrics"].keys()
    assert {"process_open_fds", 'kafka_server_brokertopicmetrics_bytesin_total{topic=""}'} <= names
    assert sum("orders-" in name for name in names) == 3_000
    assert 0 < sum("partition=" in name for name in names) < 8_000
    assert fact["left_out"] + len(names) == len(found)
    assert json.loads(metrics_record(Asked(7, 5, "", 4, 2, 2), {"a": 1})) == {
        "time_ms": 5, "node": 7, "page": "", "due_ms": 4, "every_ms": 2, "missed": 2, "metrics": {"a": 1},
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
    with pytest.raises(Away, match="OUT_OF_ORDER_SEQUENCE_NUMBER; they go on under another producer"):
        one.write()
    one.look(PAGES)
    one.write()
    assert topic.ids == 2
    assert [fact["node"] for fact in topic.facts()] == [1, 2, 1, 2]
    assert (one.waiting, one.written, one._bytes) == (0, 4, 0)


def test_a_topic_that_was_made_anew_with_fewer_partitions_gets_what_waited_for_one_that_is_gone() -> None:
    class Shrunk(Topic):
        partitions = 4

        def partition_for(self, node: int) -> int:
            return self.partitions - 1

        def ensure(self) -> None:
            self.partitions = 1

        def append(self, partition: int, data: bytes) -> Code:
            if self.made:
                return (
                    super().append(partition, data) if partition < self.partitions else Code.UNKNOWN_TOPIC_OR_PARTITION
                )
            self.made = 1
            return Code.UNKNOWN_TOPIC_OR_PARTITION

    topic = Shrunk()
    one = figures(topic, Pages())
    one.look(PAGES)
    with pytest.raises(Away, match="was not there"):
        one.write()
    one.write()
    assert [fact["node"] for fact in topic.facts()] == [1, 2]
    assert (one.waiting, one.written, one._bytes) == (0, 2, 0)


def test_what_the_cluster_does_not_take_the_next_record_of_the_node_counts() -> None:
    topic, pages = Topic(), Pages()
    one = figures(topic, pages)
    for _ in range(2):
        one.look(PAGES)
        topic.codes = [Code.TOPIC_AUTHORIZATION_FAILED]
        with pytest.raises(NotTaken, match="2 records of metrics are dropped: TOPIC_AUTHORIZATION_FAILED"):
            one.write()
    one.look(PAGES)
    one.write()
    assert [(fact["node"], fact["missed"]) for fact in topic.facts()] == [(1, 2), (2, 2)]


def test_a_node_whose_settings_name_no_page_says_so() -> None:
    topic = Topic()
    one = figures(topic, Pages())
    one.look({3: ""}, 4)
    one.write()
    why = "its settings name no http.listener"
    assert topic.facts() == [{"time_ms": 5, "node": 3, "page": "", "due_ms": 4, "every_ms": None, "error": why}]


# ---- when pages are asked


def test_an_interval_is_due_once_and_one_that_nobody_came_for_is_left_out() -> None:
    one = Intervals(10, 13)
    assert [one.take(now) for now in (13, 19, 20, 20, 29, 30, 55, 59)] == [None, None, 20, None, None, 30, 50, None]
    assert [one.left_ms(now) for now in (50, 59, 60, 75)] == [10, 1, 0, -15]
    assert Intervals(10, 20).take(29) is None


def test_a_clock_that_was_set_back_a_little_asks_nothing_twice_and_one_set_back_far_holds_up_nothing() -> None:
    one = Intervals(10, 5)
    assert [one.take(now) for now in (50, 45, 49, 51, 60)] == [50, None, None, None, 60]
    assert one.left_ms(7) == 0
    assert [one.take(now) for now in (7, 9, 10, 20)] == [None, None, 10, 20]


EVERY_MS = 10
DOES = st.lists(
    st.tuples(
        st.integers(0, 12),
        st.sampled_from(["wait", "wait", "write", "write", "unanswered", "lost", "late", "killed", "arrive"]),
    ),
    max_size=40,
)


def intervals(batches: list[bytes]) -> list[tuple[int, int]]:
    facts = [json.loads(one.value or b"") for data in batches for one in batch.records(data)]
    return [(fact["node"], fact["due_ms"]) for fact in facts if "due_ms" in fact]


@settings(deadline=None, max_examples=300)
@given(DOES)
def test_no_interval_of_a_node_is_there_twice_and_one_is_missing_only_where_a_publisher_was_killed(
    does: list[tuple[int, str]],
) -> None:
    """Publishers follow each other on one clock, are killed while they write, and what they sent may come late."""
    topic, now_ms = MemoryTopic(), 1
    asked, excused = set[tuple[int, int]](), set[tuple[int, int]]()

    def begin() -> tuple[Figures, Intervals]:
        one = Figures(topic, every_ms=EVERY_MS, now_ms=lambda: now_ms, ask=Pages())
        one.look(PAGES)
        return one, Intervals(EVERY_MS, now_ms)

    one, due = begin()
    for pause_ms, fate in [*does, (EVERY_MS, "wait")]:
        now_ms += pause_ms
        at = due.take(now_ms)
        if at is not None:
            one.look(PAGES, at)
            asked |= {(node, at) for node in PAGES}
        if fate == "arrive":
            topic.arrive()
        elif fate != "wait":
            topic.fate = "written" if fate == "write" else fate
            try:
                one.write()
            except Away:
                pass
            except Killed:
                excused |= asked - set(intervals(topic.batches))
                one, due = begin()
        topic.fate = "written"
    while one.write():
        pass
    topic.arrive()
    found = intervals(topic.batches)
    assert len(found) == len(set(found))
    assert asked - excused <= set(found) <= asked
    assert all(at % EVERY_MS == 0 for _, at in found)


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
