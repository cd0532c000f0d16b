"""Every codec, written by every client and read by every other: the cluster keeps the bytes and what they mean."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from foreign import CODECS, READERS, WRITERS, Record, create_topic

# Long enough that every codec really shrinks it, so that no client falls back to sending it plain.
TEXT = b"the quick brown fox jumps over the lazy dog " * 20


def records_of(writer: str) -> list[Record]:
    return [(f"{writer}-{turn}".encode(), TEXT + str(turn).encode()) for turn in range(20)]


@pytest.fixture(scope="module")
def written(bootstrap_servers: str) -> Callable[[str], str]:
    """Gives the topic of a codec, filled by every client; made when first asked for."""
    topics: dict[str, str] = {}

    def topic_of(codec: str) -> str:
        if codec not in topics:
            topics[codec] = f"codec-{codec}"
            create_topic(bootstrap_servers, topics[codec], partitions=3)
            for name, write in WRITERS.items():
                write(bootstrap_servers, topics[codec], records_of(name), codec)
        return topics[codec]

    return topic_of


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("codec", ["none", *CODECS])
def test_what_every_client_writes_is_read_by_this_one(
    codec: str, reader: str, written: Callable[[str], str], bootstrap_servers: str
) -> None:
    expected = [record for writer in WRITERS for record in records_of(writer)]

    came = READERS[reader](bootstrap_servers, written(codec), len(expected))

    assert sorted(came) == sorted(expected)
