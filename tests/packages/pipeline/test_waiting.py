"""A run waits for a broker to be there, and says so."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from moldau.pipeline import running
from moldau.pipeline.reading import read_text
from moldau.pipeline.running import Ended, NoCluster, Runner
from moldau.pipeline.spec import Pipeline


class HasBegun(Exception):
    """Spark would be started now."""


def runner(tmp_path: Path, port: int, said: list[str], *, once: bool) -> Runner:
    head = f"pipeline: a\ncluster: 127.0.0.1:{port}\nfolder: {tmp_path / 'a'}\n"
    pipeline = read_text(head + "source: {topics: b}\nsinks: [{table: /t}]\n", {}).pipeline
    assert pipeline is not None

    def begin(pipeline: Pipeline) -> object:
        raise HasBegun

    return Runner(pipeline, once=once, say=said.append, session=begin)  # type: ignore[arg-type]  # it returns nothing


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_one_round_ends_when_nobody_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "REACH_S", 0.1)
    said: list[str] = []
    port = closed_port()
    one = runner(tmp_path, port, said, once=True)
    with pytest.raises(NoCluster, match=f"no broker takes connections at 127.0.0.1:{port}"):
        one.run()
    assert said == [f"no broker takes connections at 127.0.0.1:{port}; it is waited for"]
    state = one.folder.state()
    assert state is not None
    assert state.state == "failed"


def test_a_run_without_end_waits_until_somebody_is_there(tmp_path: Path) -> None:
    said: list[str] = []
    port = closed_port()
    one = runner(tmp_path, port, said, once=False)
    servers: list[socket.socket] = []

    def hear(text: str) -> None:
        said.append(text)
        servers.append(socket.create_server(("127.0.0.1", port)))

    one._say = hear
    with pytest.raises(HasBegun):
        one.run()
    assert len(said) == 1
    for server in servers:
        server.close()


def test_a_run_that_waits_can_be_stopped(tmp_path: Path) -> None:
    one = runner(tmp_path, closed_port(), [], once=False)
    one._say = lambda text: one.stop()
    assert one.run() is Ended.STOPPED
