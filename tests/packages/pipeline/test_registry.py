"""The client of schema registries, against the registry for tests."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from moldau.pipeline.registry.client import Reference, Registry, RegistryError, UnknownSchema
from moldau.pipeline.registry.double import RegistryDouble


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


@pytest.mark.parametrize("url", ["registry:8081", "ftp://registry", "http://", "http://a:b@c:port"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(RegistryError):
        Registry(url)


def test_the_registry_for_tests_says_what_it_does_not_do(double: RegistryDouble) -> None:
    registry = Registry(double.url, attempts=1)
    answer = registry._ask_once("POST", "/compatibility/subjects/a/versions/latest", {"schema": '"int"'})
    assert answer.status == 501
    assert "does not answer" in json.dumps(answer.body)
