"""What ``moldau topic`` waits for, as brokers tell it."""

from __future__ import annotations

import pytest

from moldau.admin import topic_changes
from moldau.admin.topic_changes import _are_gone, _are_led
from moldau.model import Code
from moldau.wire.messages.k03_metadata import MetadataResponse
from tests.packages.admin.doubles import TalkDouble

Shown = MetadataResponse.MetadataResponseTopic


@pytest.mark.parametrize(
    ("seen", "gone"),
    [
        ([], False),
        ([Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_OR_PARTITION], True),
        ([Code.UNKNOWN_TOPIC_OR_PARTITION, Code.NONE], False),
    ],
    ids=["nobody answers", "nobody knows it", "one knows it"],
)
def test_a_topic_is_gone_when_a_broker_says_so_and_none_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, seen: list[Code], gone: bool
) -> None:
    """While no broker answered, none was said to know the topic any more."""
    topics = [Shown(name="t", error_code=code) for code in seen]
    monkeypatch.setattr(topic_changes, "_seen_by_all", lambda talk, names: topics)
    assert _are_gone(TalkDouble(), ["t"]) is gone
    assert not _are_led(TalkDouble(), ["t"])
