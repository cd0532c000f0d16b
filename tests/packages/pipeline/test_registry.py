"""The client of schema registries, against the registry for tests."""

from __future__ import annotations

import base64
import itertools
import json
import queue
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from moldau.pipeline.registry import client
from moldau.pipeline.registry.client import Reference, Registry, RegistryError, UnknownSchema
from moldau.pipeline.registry.double import RegistryDouble
from moldau.pipeline.running import unless_stopped


@pytest.fixture
def double() -> Iterator[RegistryDouble]:
    with RegistryDouble() as started:
        yield started


def test_a_schema_is_registered_once_and_found_by_id_and_by_subject(double: RegistryDouble) -> None:
    registry = Registry(double.url)
    first = registry.register("a/b-value", '"string"')
    assert registry.register("a/b-value", '"string"') == first
    second = registry.register("a/b-value", "message M {}", "PROTOBUF", (Reference("x", "other", 1),))
    assert registry.by_subject("a/b-value").id == second
    assert registry.by_subject("a/b-value", 1).text == '"string"'
    found = registry.by_id(second)
    assert (found.kind, found.references) == ("PROTOBUF", (Reference("x", "other", 1),))
    assert registry.subjects() == ["a/b-value"]


def test_an_id_is_asked_once(double: RegistryDouble) -> None:
    number = double.register("a", '"int"')
    registry = Registry(double.url)
    assert [registry.by_id(number).text for _ in range(3)] == ['"int"'] * 3
    assert double.asked == [f"/schemas/ids/{number}"]


def test_references_stand_before_what_uses_them(double: RegistryDouble) -> None:
    double.register("c", '"c"')
    double.register("b", '"b"', references=[Reference("c", "c", 1)])
    double.register("a", '"a"', references=[Reference("b", "b", 1), Reference("c", "c", 1)])
    registry = Registry(double.url)
    assert registry.with_references(registry.by_subject("a")) == ['"c"', '"b"', '"a"']


def test_what_is_not_there_is_said_with_what_is_near(double: RegistryDouble) -> None:
    double.register("orders-value", '"int"')
    registry = Registry(double.url)
    with pytest.raises(UnknownSchema, match=r"'order-value' is not in .*did you mean 'orders-value'\?"):
        registry.by_subject("order-value")
    with pytest.raises(UnknownSchema, match="has no version 7"):
        registry.by_subject("orders-value", 7)
    with pytest.raises(UnknownSchema, match=f"schema id 77 is not in the registry at {double.url}"):
        registry.by_id(77)


def test_a_subject_that_is_not_there_is_said_to_be_so_by_who_may_not_list_them(
    double: RegistryDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = Registry(double.url)
    monkeypatch.setattr(registry, "subjects", lambda: (_ for _ in ()).throw(RegistryError("refuses the user (403)")))
    with pytest.raises(UnknownSchema, match="subject 'b' is not in the registry"):
        registry.by_subject("b")


def test_failures_are_tried_again_with_longer_pauses_and_then_said(double: RegistryDouble) -> None:
    pauses: list[float] = []
    number = double.register("a", '"int"')

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        double.failing = len(pauses) < 2

    double.failing = True
    registry = Registry(double.url, pause=pause)
    assert registry.by_id(number).text == '"int"'
    assert pauses == [0.2, 0.4]
    double.stop()
    with pytest.raises(RegistryError, match=r"cannot be reached: .* \(4 attempts\)") as caught:
        Registry(double.url, pause=pauses.append).by_id(number)
    assert not isinstance(caught.value, UnknownSchema)
    assert pauses[2:] == [0.2, 0.4, 0.8]


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (404, b"<html>", "is no schema registry"),
        (404, b'{"path": "/"}', "is no schema registry"),
        (200, b"[]", "is no schema registry"),
        (200, b"{}", "an answer has no schema"),
        (401, b'{"error_code": 401, "message": "Unauthorized"}', "refuses the user or password"),
    ],
)
def test_what_is_no_registry_is_called_so_and_a_password_is_sent_and_not_shown(
    status: int, body: bytes, said: str
) -> None:
    sent: list[str | None] = []

    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sent.append(self.headers.get("Authorization"))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Other) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            registry = Registry(f"http://me:s%3Acret@127.0.0.1:{server.server_port}")
            with pytest.raises(RegistryError, match=said) as caught:
                registry.by_id(1)
        finally:
            server.shutdown()
            thread.join()
    assert sent == ["Basic " + base64.b64encode(b"me:s:cret").decode()]
    assert "cret" not in str(caught.value) + repr(registry)
    assert not isinstance(caught.value, UnknownSchema)


@pytest.mark.parametrize(
    "url",
    ["registry:8081", "ftp://registry", "http://", "http://a:b@c:port", "http://[::1", "http://[x]:1", "http://a..b",
     f"http://me:cret@{'a' * 64}"],
)  # fmt: skip
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(RegistryError) as caught:
        Registry(url)
    assert "cret" not in str(caught.value)


def test_what_cannot_be_written_into_a_request_is_told_and_not_tried_again(double: RegistryDouble) -> None:
    registry = Registry(f"{double.url}/\u00e4", attempts=4, pause=lambda _: pytest.fail("tried again"))
    with pytest.raises(RegistryError, match="cannot be asked"):
        registry.by_id(1)


def test_a_schema_that_two_others_call_differently_has_both_names(double: RegistryDouble) -> None:
    double.register("c", '"c"')
    double.register("b", '"b"', references=[Reference("c of b", "c", 1)])
    double.register("a", '"a"', references=[Reference("b", "b", 1), Reference("c of a", "c", 1)])
    registry = Registry(double.url)
    found = registry.by_subject("a")
    assert registry.named_references(found) == {"c of b": '"c"', "b": '"b"', "c of a": '"c"'}
    assert registry.with_references(found) == ['"c"', '"b"', '"a"']
    assert double.asked.count("/subjects/c/versions/1") == 2


def test_what_a_deleted_schema_uses_is_found_for_the_values_that_are_still_there(double: RegistryDouble) -> None:
    double.register("b", '"b"')
    number = double.register("a", '"a"', references=[Reference("b", "b", 1)])
    double.delete("a")
    double.delete("b")
    registry = Registry(double.url)
    assert registry.with_references(registry.by_id(number)) == ['"b"', '"a"']
    assert registry.subjects() == []
    with pytest.raises(UnknownSchema):
        registry.by_subject("b", 1)


def test_the_registry_for_tests_says_what_it_does_not_do(double: RegistryDouble) -> None:
    registry = Registry(double.url, attempts=1)
    answer = registry._ask_once("POST", "/compatibility/subjects/a/versions/latest", {"schema": '"int"'})
    assert answer.status == 501
    assert "does not answer" in json.dumps(answer.body)


@contextmanager
def answering(parts: Iterable[bytes]) -> Iterator[tuple[str, threading.Event]]:
    """A server's URL that sends the parts of an answer, and whether it saw that its reader is gone."""
    gone, closed = threading.Event(), threading.Event()

    def serve() -> None:
        connection, _ = listening.accept()
        with connection, suppress(OSError):
            connection.recv(65_536)
            connection.settimeout(0.02)
            for part in parts:
                connection.sendall(part)
                if closed.is_set():
                    return
                with suppress(TimeoutError):
                    if not connection.recv(1):  # what paces the parts, and tells that the reader is gone
                        gone.set()
                        return

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}", gone
        finally:
            closed.set()
            thread.join(30)


@pytest.mark.parametrize(
    "head",
    [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b"HTTP/1.1 200 OK\r\nX-Long: "],
)
def test_an_answer_that_comes_byte_by_byte_is_not_waited_for_without_end(head: bytes) -> None:
    """2,000 bytes of it, 0.02 s apart: no single one is late."""
    with answering(itertools.chain([head], itertools.repeat(b"x", 2_000))) as (url, gone):
        with pytest.raises(RegistryError, match=r"cannot be reached: no whole answer within 0.5 s \(1 attempts\)"):
            Registry(url, timeout_seconds=0.5, attempts=1).by_id(1)
        assert gone.wait(30), "the connection is closed"


class Late(queue.Queue[object]):
    """Who waits on it is woken later than it asked to be, as on a busy machine."""

    def get(self, block: bool = True, timeout: float | None = None) -> object:
        return super().get(timeout=60)


class LateQueues:
    """The module ``queue``, all of whose queues are late."""

    SimpleQueue = Late
    Empty = queue.Empty


def test_a_silence_is_told_in_the_same_words_whichever_clock_is_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The socket's own time may be over before whoever waits for the whole answer looks up: it said `timed out`."""
    monkeypatch.setattr(client, "queue", LateQueues)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(RegistryError, match=r"cannot be reached: no whole answer within 0.1 s \(1 attempts\)"):
            Registry(url, timeout_seconds=0.1, attempts=1).by_id(1)


def test_who_is_stopped_does_not_wait_for_what_is_planned() -> None:
    stop, end = threading.Event(), threading.Event()

    def planned() -> bool:
        stop.set()
        return end.wait(60)

    assert unless_stopped(planned, stop) is None
    end.set()
    assert unless_stopped(lambda: 7, threading.Event()) == 7
    with pytest.raises(TimeoutError, match="late"):
        unless_stopped(_late, threading.Event())


def _late() -> None:
    raise TimeoutError("late")


def test_an_answer_that_is_too_long_is_no_registrys(monkeypatch: pytest.MonkeyPatch, double: RegistryDouble) -> None:
    monkeypatch.setattr(client, "LARGEST_ANSWER_BYTES", 100)
    number = double.register("a", f'"{"x" * 100}"')
    with pytest.raises(RegistryError, match="is no schema registry: more than"):
        Registry(double.url).by_id(number)
    assert len(double.asked) == 1
