"""The file of ``--command-config``: a client's settings under Java's names or librdkafka's.

Decides which settings commands use, which they leave unused (told once), and which they refuse: whatever asks for TLS
or SASL, because going on without would send in the clear what was to be hidden. Read next: options.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from moldau.model.config_key import ConfigError
from moldau.model.properties import decode_properties, read_properties

_OF_LIBRDKAFKA = {
    "metadata.broker.list": "bootstrap.servers",
    "socket.timeout.ms": "request.timeout.ms",
    "socket.connection.setup.timeout.ms": "socket.connection.setup.timeout.ms",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
    "request.required.acks": "acks",
    "compression.codec": "compression.type",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
}
"""librdkafka's names of settings that Java's clients have under another."""
USED = frozenset(
    {
        "acks", "bootstrap.servers", "client.id", "client.rack", "compression.type", "default.api.timeout.ms",
        "fetch.max.bytes", "fetch.max.wait.ms", "fetch.min.bytes", "group.instance.id", "isolation.level",
        "max.partition.fetch.bytes", "metadata.max.age.ms", "request.timeout.ms", "retry.backoff.max.ms",
        "retry.backoff.ms", "session.timeout.ms", "socket.connection.setup.timeout.ms",
    }
)  # fmt: skip
"""What some command uses."""
_SECURITY = re.compile(r"(security|ssl|sasl|https|enable\.ssl|enable\.sasl)\.")
_PLAIN = "plaintext"


class BadClientConfig(Exception):
    """A file that cannot be used; the text names the file, the setting and what to do."""


class ClientConfig:
    """A client's settings, under Java's names."""

    def __init__(self, given: Mapping[str, str], path: str = "") -> None:
        self.path = path
        self.given = dict(given)

    def text(self, key: str, default: str = "") -> str:
        return self.given.get(key, default)

    def integer(self, key: str, default: int) -> int:
        """A whole number that is not negative; BadClientConfig when it is none."""
        text = self.given.get(key)
        if text is None:
            return default
        if not re.fullmatch(r"\d{1,15}", text.strip(), re.ASCII):
            raise BadClientConfig(f"{self.path}: {key}={text} is no number")
        return int(text)

    def one_of(self, key: str, allowed: tuple[str, ...], default: str) -> str:
        """One of a few words, in lower case; BadClientConfig when it is another."""
        text = self.text(key, default).lower()
        if text not in allowed:
            raise BadClientConfig(f"{self.path}: {key}={text} is none of {', '.join(allowed)}")
        return text

    @property
    def unused(self) -> list[str]:
        """Settings that no command uses."""
        return sorted(set(self.given) - USED)


def read_client_config(path: str) -> ClientConfig:
    """The settings of a file; BadClientConfig when it cannot be read or asks for what is not served."""
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise BadClientConfig(f"{path}: {error.strerror}") from None
    try:
        text = decode_properties(raw)
    except ConfigError:
        raise BadClientConfig(f"{path} is no text file; Java's properties or librdkafka's key=value are") from None
    try:
        given = read_properties(text)
    except ConfigError as error:
        raise BadClientConfig(f"{path}: {error}") from None
    for key, value in given.items():
        if _SECURITY.match(key) and not (key == "security.protocol" and value.strip().lower() == _PLAIN):
            raise BadClientConfig(
                f"{path}: {key} is not supported: these commands speak PLAINTEXT only, without TLS and SASL; "
                "remove it, and name a PLAINTEXT listener as --bootstrap-server"
            )
    given.pop("security.protocol", None)
    return ClientConfig({_OF_LIBRDKAFKA.get(key, key): value.strip() for key, value in given.items()}, path)
