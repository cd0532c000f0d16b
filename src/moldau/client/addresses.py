"""Reads addresses of brokers as every client's ``bootstrap.servers`` has them. Resolves no name, connects nowhere."""

from __future__ import annotations


def addresses(bootstrap: str) -> list[tuple[str, int]]:
    """``host:port,[::1]:port`` as pairs; ValueError names what is not one."""
    found = []
    for one in filter(None, (part.strip() for part in bootstrap.split(","))):
        host, colon, port = one.rpartition(":")
        if not colon or not port.isdecimal() or not host or "/" in host or len(port) > 5 or int(port) > 65535:
            raise ValueError(f"{one!r} is not an address: host:port is expected, with a port up to 65535")
        found.append((host.removeprefix("[").removesuffix("]"), int(port)))
    if not found:
        raise ValueError("no bootstrap address is given")
    return found
