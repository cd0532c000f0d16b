"""Asks an address, in one short exchange, whether a Kafka broker answers there: ApiVersions, which none refuses.

A web server, a TLS listener or a port that says nothing is named within seconds; the client itself would go on asking
for as long as a cluster may need to start.
"""

from __future__ import annotations

import socket
import struct

ANSWER_S = 5.0
"""How long a listener may take for its first bytes."""
CLOSING = (
    "a broker does so that has no file descriptors left (`ulimit -n`) or takes no more connections"
    " (max.connections.per.ip; its log says which), or that wants TLS or SASL; or it is no Kafka broker"
)
"""Who closes a connection before a word is said."""
_ID = 0x4D4F4C44
_REQUEST = struct.pack(">ihhih", 10, 18, 0, _ID, -1)
"""ApiVersions v0 without a client id; every broker since 0.10 answers, and one that does not know a version says so."""
_SIZE_MAX = 1 << 20


def why_not_kafka(host: str, port: int, patience_s: float = ANSWER_S) -> str | None:
    """What answers there instead of a broker; None when a broker does. OSError when nobody can be connected to."""
    broken = f"{host}:{port} took the connection and broke it without an answer: {CLOSING}"
    try:
        line = socket.create_connection((host, port), patience_s)
    except ConnectionResetError:  # so soon that it was not heard of as made
        return broken
    with line:
        line.settimeout(patience_s)
        try:
            line.sendall(_REQUEST)
            head = _first(line)
        except TimeoutError:
            return f"{host}:{port} took the connection and has said nothing for {patience_s:g} s"
        except OSError:
            return broken
    if len(head) == 8:
        size, correlation = struct.unpack(">ii", head)
        if correlation == _ID and 4 <= size <= _SIZE_MAX:
            return None
    if not head:
        return f"{host}:{port} took the connection and closed it without an answer: {CLOSING}"
    if head[:2] == b"\x15\x03":
        return f"{host}:{port} speaks TLS, which this command does not"
    kind = "a web server" if head.startswith((b"HTTP/", b"<")) else f"something that says {head!r}"
    return f"{host}:{port} is no Kafka broker but {kind}"


def _first(line: socket.socket) -> bytes:
    """The first eight bytes, or all there are when the other end closes before."""
    head = b""
    while len(head) < 8 and (more := line.recv(8 - len(head))):
        head += more
    return head
