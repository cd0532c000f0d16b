"""What is said of a ZooKeeper that is not there stands in lines of a log, as with Kafka's tools."""

from __future__ import annotations

import re

import pytest

from moldau.admin.classic import zookeeper_session
from moldau.admin.classic.java import JavaError
from moldau.ports.zookeeper import ZooKeeper

LINE = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] WARN .+ \(org\.apache\.zookeeper\.ClientCnxn\)")


async def nothing(zk: ZooKeeper) -> None:
    """Is never reached."""


def test_a_refused_connection_is_a_line_of_the_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(zookeeper_session, "PATIENCE_MS", 1_500)
    with pytest.raises(JavaError, match="Timed out waiting for connection while in state: CONNECTING"):
        zookeeper_session.in_zookeeper("127.0.0.1:1", nothing)
    said = capsys.readouterr()
    lines = said.err.splitlines()
    assert said.out == ""
    assert lines
    assert [line for line in lines if not LINE.fullmatch(line)] == []
