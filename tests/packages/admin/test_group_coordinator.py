"""A group whose coordinator does not answer, of a cluster that is a double."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest

from moldau.admin.group import described
from moldau.client.client import ClientOptions, Unreachable
from moldau.client.view import Broker


class Dead:
    """A conversation with a cluster in which broker 2 coordinates all groups, and is dead."""

    def __init__(self, coordinator: Broker | None) -> None:
        self.cluster = self.client = self
        self.options = ClientOptions()
        self.coordinator = lambda _: coordinator
        self.waited_ms = 0

    def ask(self, _: object, ids: list[str], *, timeout_ms: int) -> NoReturn:
        self.waited_ms = timeout_ms
        raise Unreachable("ConsumerGroupDescribeRequest: refused") from ConnectionRefusedError(
            111, "Connection refused"
        )


@pytest.mark.parametrize(
    ("coordinator", "said"),
    [
        (
            Broker(2, "127.0.0.1", 9093, None),
            "its coordinator, broker 2 at 127.0.0.1:9093, does not answer: [Errno 111]",
        ),
        (None, "no broker answers for it now: [Errno 111]"),
    ],
)
def test_a_coordinator_that_does_not_answer_is_named_in_time(
    capsys: pytest.CaptureFixture[str], coordinator: Broker | None, said: str
) -> None:
    """After half a minute the name of a request was told."""
    talk: Any = Dead(coordinator)  # a double of a conversation
    with pytest.raises(SystemExit):
        described(talk, "g", 5.0)
    assert talk.waited_ms == 5_000
    assert f"group g: {said} Connection refused" in capsys.readouterr().err
