"""``zookeeper.connect`` taken apart: hosts and chroot, with a clear word about what is wrong with it. Pure.

Source: ZooKeeper Programmer's Guide (connection strings); Kafka's zookeeper.connect.
"""

from __future__ import annotations

from moldau.model.named import NamedTuple


class Connect(NamedTuple):
    """``hosts``: (host, port) of every server; ``chroot``: "" or a path without a slash at its end."""

    hosts: tuple[tuple[str, int], ...]
    chroot: str


def parse_connect(text: str) -> Connect:
    """ValueError says which part is wrong.

    >>> parse_connect("a:2181,[::1]:2182/kafka/eu/")
    Connect(hosts=(('a', 2181), ('::1', 2182)), chroot='/kafka/eu')
    """
    servers, slash, rest = text.strip().partition("/")
    if not servers:
        raise ValueError(f"zookeeper.connect={text!r} names no server; host:port[,host:port..][/chroot] is expected")
    hosts = tuple(_server(part.strip(), text) for part in servers.split(","))
    chroot = (slash + rest).rstrip("/")
    if any(part in ("", ".", "..") or not part.isprintable() for part in chroot.split("/")[1:]):
        raise ValueError(f"zookeeper.connect={text!r} has a chroot, {chroot!r}, that is no path of znodes")
    return Connect(hosts, chroot)


def _server(part: str, text: str) -> tuple[str, int]:
    host, colon, port = part.rpartition(":")
    if not colon or (part.startswith("[") and part.endswith("]")):
        host, port = part, "2181"
    if not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65536:
        raise ValueError(f"zookeeper.connect={text!r}: {part!r} has no port between 1 and 65535")
    host = host.removeprefix("[").removesuffix("]")
    if not host or any(letter.isspace() for letter in host):
        raise ValueError(f"zookeeper.connect={text!r}: {part!r} names no host")
    return host, int(port)
