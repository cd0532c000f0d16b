"""Ids as Kafka's tools read them from a command line."""

from __future__ import annotations

from moldau.admin.classic.java import illegal_argument
from moldau.model.ids import uuid_bytes


def java_uuid(text: str) -> bytes:
    """The 16 bytes of an id; JavaError with the words of Kafka's Uuid.fromString when it is none."""
    if len(text) > 24:
        shown = text[:24]
        raise illegal_argument(f"Input string with prefix `{shown}` is too long to be decoded as a base64 UUID")
    try:
        return uuid_bytes(text)
    except ValueError:
        pass
    if len(text) == 1:
        raise illegal_argument("Input byte[] should at least have 2 bytes for base64 bytes")
    bad = next((letter for letter in text if not (letter.isascii() and (letter.isalnum() or letter in "-_"))), None)
    if bad is not None:
        raise illegal_argument(f"Illegal base64 character {ord(bad):x}")
    size = len(text) * 6 // 8
    expected = "which is not equal to the expected 16 bytes of a base64-encoded UUID"
    raise illegal_argument(f"Input string `{text}` decoded as {size} bytes, {expected}")
