"""kazoo made strict, without a server: who is refused, in which order things are told, many reads in one request."""

from __future__ import annotations

import struct
import threading
from typing import Any

import pytest
from kazoo import exceptions
from kazoo.protocol.serialization import Connect
from kazoo.protocol.states import Callback, KeeperState

from moldau.ports.zookeeper import BadVersion, ConnectionLoss, NoAuth, SessionExpired, Stat, ZooKeeperError
from moldau.zookeeper import link
from moldau.zookeeper.link import ReadMany, ZooKeeperClient, translated
from tests.packages.doubles import TimeModule


def client(told: Any = None) -> ZooKeeperClient:
    return ZooKeeperClient("127.0.0.1:1", 4_000, told or (lambda _: None))


def asked(one: ZooKeeperClient) -> Any:
    answer = one.exists_async("/a")
    return answer.exception


def test_a_call_is_refused_until_the_session_is_connected() -> None:
    one = client()
    assert isinstance(asked(one), exceptions.ConnectionLoss)
    one._session_callback(KeeperState.CONNECTING)
    assert isinstance(asked(one), exceptions.ConnectionLoss)
    assert not one._queue, "nothing waits for another connection"


def test_after_a_break_a_call_is_refused_until_watches_are_looked_after() -> None:
    one = client()
    one._connection._write_sock = threading  # anything: a call that passes is queued, and waking fails
    one._session_callback(KeeperState.CONNECTED)
    one._session_callback(KeeperState.CONNECTING)
    one._session_callback(KeeperState.CONNECTED)
    assert isinstance(asked(one), exceptions.ConnectionLoss)
    assert not one._queue
    one.mended()
    asked(one)
    assert len(one._queue) == 1


def test_a_session_that_is_over_stays_over() -> None:
    told: list[str] = []
    one = client(told.append)
    one._stopped.clear()
    one._session_callback(KeeperState.CONNECTED)
    one._session_callback(KeeperState.EXPIRED_SESSION)
    assert one._stopped.is_set(), "kazoo would open another session"
    one._session_callback(KeeperState.CONNECTING)
    one._session_callback(KeeperState.CONNECTED)
    assert isinstance(asked(one), exceptions.SessionExpiredError)
    assert told[:2] == ["CONNECTED", "LOST"]


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """No time passes but what a test takes away from when an owner was heard: a busy machine is no owner that hangs."""
    monkeypatch.setattr(link, "time", TimeModule(1_000_000.0))


@pytest.mark.usefixtures("frozen")
def test_a_session_whose_owner_stands_still_is_not_kept_alive() -> None:
    """A leader whose disk hangs writes nothing and would lead for ever: the connection's thread has no disk."""
    one = client()
    one._stopped.clear()
    pings: list[object] = []
    one._connection._submit = lambda request, timeout, xid: pings.append(request)
    one.report_alive()
    one._connection._send_ping(1.0)
    assert len(pings) == 1

    one.heard_s -= 1_000.0
    ping = threading.Thread(target=one._connection._send_ping, args=(1.0,), daemon=True)
    ping.start()
    ping.join(0.2)
    assert ping.is_alive()
    assert len(pings) == 1
    one.report_alive()
    ping.join(60)
    assert len(pings) == 2


def told_by_us(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What this part has logged: threads of earlier tests may log as well."""
    return [record.getMessage() for record in caplog.records if record.name == link.log.name]


@pytest.mark.usefixtures("frozen")
@pytest.mark.parametrize(("asked_ms", "given_ms"), [(60_000, 3_000), (1, 40_000)])
def test_the_time_that_servers_give_a_session_is_the_one_that_counts(
    asked_ms: int, given_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Servers bound it: an owner that stood still kept a session of 3 s alive for 20 s, a third of what it wanted."""
    one = ZooKeeperClient("127.0.0.1:1", asked_ms, lambda _: None)
    one._stopped.clear()
    pings: list[object] = []
    one._connection._submit = lambda request, timeout, xid: pings.append(request)
    answers = [Connect(0, 0, given_ms, 7, b"", False)] * 2 + [Connect(0, 0, 0, 0, b"", False)]
    one._invoke = lambda timeout, request, xid: (answers.pop(0), None)
    assert one.session_timeout_ms == asked_ms
    for _ in range(3):  # two connections of the session, and one that hears that it is over
        one._connection._invoke(1.0, Connect(0, 0, asked_ms, 0, b"", False))
    assert one.session_timeout_ms == given_ms
    (said,) = told_by_us(caplog)
    assert f"{given_ms} ms without a word, not for the {asked_ms} of zookeeper.session.timeout.ms" in said

    one.report_alive()
    assert one.heard_s is not None
    one.heard_s -= given_ms / 2_000
    ping = threading.Thread(target=one._connection._send_ping, args=(1.0,), daemon=True)
    ping.start()
    ping.join(0.2)
    assert not pings, "it stood still for half of the session's time"
    one.report_alive()
    ping.join(60)
    assert len(pings) == 1
    one.heard_s -= given_ms / 6_000
    ping = threading.Thread(target=one._connection._send_ping, args=(1.0,), daemon=True)
    ping.start()
    ping.join(60)
    assert len(pings) == 2


def test_a_time_that_servers_give_as_it_was_asked_for_is_not_worth_a_word(caplog: pytest.LogCaptureFixture) -> None:
    one = client()
    one._invoke = lambda timeout, request, xid: (Connect(0, 0, 4_000, 7, b"", False), None)
    one._connection._invoke(1.0, Connect(0, 0, 4_000, 0, b"", False))
    assert (one.session_timeout_ms, told_by_us(caplog)) == (4_000, [])


def test_a_session_that_ends_waits_for_no_owner() -> None:
    one = client()
    one._connection._submit = lambda request, timeout, xid: None
    one.report_alive()
    one.heard_s -= 1_000.0
    one._stopped.set()
    one._connection._send_ping(1.0)


def test_answers_and_events_are_told_at_once_in_the_connection_s_thread() -> None:
    handler = client().handler
    handler.start()
    told: list[tuple[str, int]] = []
    answer = handler.async_result()
    answer.rawlink(lambda _: told.append(("answer", threading.get_ident())))
    answer.set(1)
    handler.dispatch_callback(Callback("watch", lambda: told.append(("event", threading.get_ident())), ()))
    assert told == [("answer", threading.get_ident()), ("event", threading.get_ident())]
    handler.stop()


@pytest.mark.parametrize(
    ("error", "ours"),
    [
        (exceptions.BadVersionError(), BadVersion),
        (exceptions.NoAuthError(), NoAuth),
        (exceptions.ConnectionLoss(), ConnectionLoss),
        (exceptions.ConnectionClosedError(), ConnectionLoss),
        (exceptions.SessionExpiredError(), SessionExpired),
        (exceptions.NoChildrenForEphemeralsError(), ZooKeeperError),
    ],
)
def test_errors_are_the_port_s_and_name_the_znode(error: Exception, ours: type) -> None:
    translated_error = translated(error, "/a")
    assert type(translated_error) is ours
    assert translated_error.path == "/a"


def test_many_reads_are_one_request_and_one_answer() -> None:
    sent = ReadMany(["/a", "/ä"]).serialize()
    assert sent == (
        struct.pack(">ibi", 4, 0, -1) + struct.pack(">i", 2) + b"/a\0"
        + struct.pack(">ibi", 4, 0, -1) + struct.pack(">i", 3) + "/ä".encode() + b"\0"
        + struct.pack(">ibi", -1, 1, -1)
    )  # fmt: skip
    stat = struct.pack(">qqqqiiiqiiq", 5, 6, 0, 0, 2, 0, 0, 9, 1, 0, 7)
    answer = (
        b"...." + struct.pack(">ibi", 4, 0, 0) + struct.pack(">i", 1) + b"x" + stat
        + struct.pack(">ibi", -1, 0, -101) + struct.pack(">i", -101)
        + struct.pack(">ibi", 4, 0, 0) + struct.pack(">i", -1) + stat
        + struct.pack(">ibi", -1, 1, -1)
    )  # fmt: skip
    first, second, third = ReadMany.deserialize(answer, 4)
    assert first == (b"x", Stat(czxid=5, mzxid=6, version=2, ephemeral_owner=9, pzxid=7))
    assert isinstance(second, exceptions.NoNodeError)
    assert third == (b"", Stat(5, 6, 2, 9, 7))
