"""Names of things: topic-partitions and Kafka's 16-byte ids with their 22-character text.

An id (cluster, topic, directory, incarnation) is 16 bytes everywhere inside Moldau; text appears only in files and
output.
"""

from __future__ import annotations

import binascii
import re

from moldau.model.named import NamedTuple

NO_UUID = bytes(16)
"""The zero id: Kafka's "no id"."""


METADATA_TOPIC = "__cluster_metadata"
"""The name of the quorum's own log, which is no topic."""
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}\Z")


def is_topic_name(name: str) -> bool:
    """Whether a topic may have this name, which becomes part of a folder's."""
    return _LEGAL_NAME.match(name) is not None and name not in (".", "..", METADATA_TOPIC)


class TopicPartition(NamedTuple):
    """One partition of a topic; prints as Kafka prints it, ``topic-0``."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def uuid_text(id: bytes) -> str:
    """The 22-character base64url text of a 16-byte id, as Kafka writes it.

    >>> uuid_text(bytes(16))
    'AAAAAAAAAAAAAAAAAAAAAA'
    """
    text = binascii.b2a_base64(id, newline=False).rstrip(b"=").decode()
    return text.replace("+", "-").replace("/", "_")


def uuid_bytes(text: str) -> bytes:
    """The 16 bytes behind a 22-character id; ValueError names a text that is not one.

    >>> uuid_bytes('AAAAAAAAAAAAAAAAAAAAAA') == bytes(16)
    True
    """
    try:
        id = binascii.a2b_base64(text.replace("-", "+").replace("_", "/") + "==")
    except (binascii.Error, ValueError):
        id = b""
    if len(id) != 16:
        raise ValueError(f"{text!r} is not a Kafka id: 22 characters of base64url are expected")
    return id
