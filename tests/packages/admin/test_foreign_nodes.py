"""Whether a broker's process ended, from outside."""

from __future__ import annotations

import socket

from moldau.admin.foreign_nodes import _held
from moldau.admin.waiting import came_about
from moldau.client.view import Broker


def test_a_process_has_ended_when_it_closes_what_was_held_and_no_sooner() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        broker = Broker(1, *server.getsockname()[:2])
        with _held(broker) as process:
            connection, _ = server.accept()
            assert not process.ended()
            assert not process.ended(), "looking takes nothing away"
            connection.close()
            assert came_about(process.ended, 60)
    with _held(broker) as process:
        assert process.ended(), "none listened before"
