"""What is no Kafka broker is told apart at once, and named."""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner

from moldau.admin.cli import cli
from moldau.admin.probe import why_not_kafka

HOST = "127.0.0.1"


@contextlib.contextmanager
def answering(answer: Callable[[socket.socket], object]) -> Iterator[int]:
    """A port where each connection is handed to ``answer`` and then closed."""
    with socket.create_server((HOST, 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    line, _ = server.accept()
                    with line:
                        answer(line)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def broker(line: socket.socket) -> None:
    request = line.recv(100)
    body = request[8:12] + struct.pack(">hi", 0, 0)
    line.sendall(struct.pack(">i", len(body)) + body)


def test_a_broker_is_known_by_its_answer() -> None:
    with answering(broker) as port:
        assert why_not_kafka(HOST, port) is None


@pytest.mark.parametrize(
    ("says", "named"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "a web server"),
        (b"<!DOCTYPE HTML>", "a web server"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "TLS"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "something that says"),
        (
            b"",
            "took the connection and closed it without an answer: a broker does so that has no file descriptors left",
        ),
        (struct.pack(">ii", 14, 1), "something that says"),
    ],
)
def test_what_else_answers_is_named(says: bytes, named: str) -> None:
    def answer(line: socket.socket) -> None:
        line.recv(100)
        line.sendall(says)

    with answering(answer) as port:
        assert named in str(why_not_kafka(HOST, port))


def test_who_takes_a_connection_and_breaks_it_is_not_called_no_broker() -> None:
    """A node whose file descriptors were all taken did, and `doctor` said that it was no Kafka broker."""

    def break_it(line: socket.socket) -> None:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with answering(break_it) as port:
        said = str(why_not_kafka(HOST, port))
    assert f"{HOST}:{port} took the connection and " in said
    assert "(`ulimit -n`)" in said


def test_a_connection_that_is_reset_as_it_is_made_is_told_in_the_same_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def reset(*_: object) -> socket.socket:
        raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")

    monkeypatch.setattr(socket, "create_connection", reset)
    assert str(why_not_kafka(HOST, 9)).startswith(f"{HOST}:9 took the connection and broke it without an answer: ")


def test_a_port_that_says_nothing_is_not_waited_for_long() -> None:
    with socket.create_server((HOST, 0)) as server:
        assert "has said nothing" in str(why_not_kafka(HOST, server.getsockname()[1], 0.1))


def test_a_command_says_so_in_one_line() -> None:
    def answer(line: socket.socket) -> None:
        line.recv(100)
        line.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with answering(answer) as port:
        done = CliRunner().invoke(cli, ["broker", "list", "-b", f"{HOST}:{port}"])
    assert done.exit_code == 1
    assert "is no Kafka broker but a web server" in done.output
    assert done.output.count("\n") == 1
