"""Every message in every version: round trips, foreign readers, and bytes that lie."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from moldau.wire.apis import APIS
from moldau.wire.codec import Malformed
from moldau.wire.records import (
    consumer_groups,
    control,
    groups,
    remote_log,
    share_groups,
    share_state,
    streams_groups,
    transactions,
)
from moldau.wire.records.framing import METADATA, pack_metadata, unpack_metadata
from moldau.wire.schema import Message
from tests.packages.wire.messages import struct

MESSAGES = [message for api in APIS.values() for message in (api.request, api.response)]
RECORDS = [
    found
    for module in (
        control, groups, consumer_groups, share_groups, share_state, streams_groups, transactions, remote_log,
    )
    for found in vars(module).values()
    if isinstance(found, type) and issubclass(found, Message) and found is not Message
]  # fmt: skip
ALL = MESSAGES + RECORDS + list(METADATA.values())


def versions(cls: type[Message]) -> st.SearchStrategy[int]:
    return st.integers(*cls.versions)


@cache
def kio_class(name: str, version: int) -> type | None:
    """kio's class for one of our messages, or None where kio has none."""
    stem = re.sub(r"(Request|Response)$", "", name)
    package = re.sub(r"(?<!^)([A-Z])", r"_\1", stem).lower()
    kinds = {"Request": "request", "Response": "response"}
    kind = next((kind for end, kind in kinds.items() if name.endswith(end)), "data")
    try:
        module = importlib.import_module(f"kio.schema.{package}.v{version}.{kind}")
    except ModuleNotFoundError:
        return None
    return getattr(module, name)  # type: ignore[no-any-return]


def written_by_kio(cls: type[Message], ours: bytes, version: int) -> bytes:
    """Our bytes as kio reads and writes them; as they are where kio has no such message."""
    foreign = kio_class(cls.__name__, version)
    if foreign is None:
        return ours
    read, used = entity_reader(foreign)(ours, 0)
    assert used == len(ours)
    again = io.BytesIO()
    entity_writer(foreign)(again, read)
    return again.getvalue()


def kafka_python_classes() -> dict[str, type]:
    """kafka-python's message classes by name."""
    import pkgutil

    import kafka.protocol
    from kafka.protocol.api_message import ApiMessage

    for found in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
        if ".old" not in found.name and "generate_stubs" not in found.name:
            importlib.import_module(found.name)
    known: dict[str, type] = {}
    pending = [ApiMessage]
    while pending:
        cls = pending.pop()
        pending += cls.__subclasses__()
        known.setdefault(cls.__name__, cls)
    return known


KAFKA_PYTHON = kafka_python_classes()
KNOWN_TO_BOTH = [cls for cls in MESSAGES if cls.__name__ in KAFKA_PYTHON]


def written_by_kafka_python(cls: type[Message], ours: bytes, version: int) -> bytes:
    """The same with kafka-python."""
    foreign: Any = KAFKA_PYTHON[cls.__name__]
    if not foreign._valid_versions[0] <= version <= foreign.max_version:
        return ours
    read = foreign.decode(ours, version=version)
    # DeleteTopicsRequest's own encode wants a header first; the one it inherits is what all others use.
    return bytes(super(foreign, read).encode() if cls.__name__ == "DeleteTopicsRequest" else read.encode())


def test_kafka_python_knows_most_requests_of_clients() -> None:
    assert len(KNOWN_TO_BOTH) > 90


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
@settings(max_examples=30)
@given(data=st.data())
def test_a_message_comes_back_as_it_went_and_foreign_readers_write_it_the_same(
    cls: type[Message], data: st.DataObject
) -> None:
    """One message for all readers: to draw it takes longer than to read it."""
    version = data.draw(versions(cls))
    message = data.draw(struct(cls, version))
    ours = message.encode(version)
    assert cls.decode(ours, version) == message
    assert written_by_kio(cls, ours, version) == ours
    if cls in KNOWN_TO_BOTH:
        if cls.__name__ == "ApiVersionsResponse":
            message.error_code = 0  # kafka-python takes any answer with an error for version 0
            ours = message.encode(version)
        assert written_by_kafka_python(cls, ours, version) == ours


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
@settings(max_examples=15)
@given(data=st.data())
def test_bytes_that_lie_are_refused_by_name_and_never_crash(cls: type[Message], data: st.DataObject) -> None:
    version = data.draw(versions(cls))
    honest = data.draw(struct(cls, version)).encode(version)
    cut = honest[: data.draw(st.integers(0, len(honest)))]
    lie = bytearray(honest)
    for _ in range(data.draw(st.integers(0, 4))):
        if lie:
            lie[data.draw(st.integers(0, len(lie) - 1))] = data.draw(st.integers(0, 255))
    for attempt in (cut, bytes(lie), honest + b"\0"):
        with contextlib.suppress(Malformed):
            cls.decode(attempt, version)


def test_a_tagged_struct_that_is_none_is_told_from_one_that_was_left_out() -> None:
    """Its marker is 0, where one of a struct that has no tag is -1: as Kafka 4.3.1 writes both."""
    value = consumer_groups.ConsumerGroupMemberMetadataValue
    left_out = value().encode(0)
    for member, end in (
        (None, b"\1\0\1\0"),
        (value.ClassicMemberMetadata(session_timeout_ms=7), b"\1\0\7\1\0\0\0\7\1\0"),
    ):
        message = value()
        message.classic_member_metadata = member
        packed = message.encode(0)
        assert packed == left_out[:-1] + end
        assert value.decode(packed, 0).classic_member_metadata == member
    assert value.decode(left_out, 0).classic_member_metadata == value.ClassicMemberMetadata()
    assert streams_groups.StreamsGroupMemberMetadataValue().encode(0)[-3:] == b"\xff\1\0"


@pytest.mark.parametrize("cls", list(METADATA.values()), ids=lambda cls: cls.__name__)
@settings(max_examples=15)
@given(data=st.data())
def test_a_metadata_record_survives_its_frame(cls: type[Message], data: st.DataObject) -> None:
    version = data.draw(versions(cls))
    record = data.draw(struct(cls, version))
    assert unpack_metadata(pack_metadata(record, version)) == record
