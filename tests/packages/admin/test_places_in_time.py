"""A place told by a time: where no leader tells, the end is not taken for it; before 1970 everything is later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from moldau.admin import group_offsets
from moldau.admin.starting import PLACE, StartingPoint, offsets
from moldau.client import group_lags
from moldau.client.reading import Offset
from moldau.model import Code, TopicPartition

A, B = (TopicPartition("t", number) for number in range(2))
STARTS, ENDS = {A: 5, B: 7}, {A: 50, B: 70}


class Talks:
    """A conversation with a cluster in which partitions have these bounds."""

    def ask(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return (STARTS, ENDS) if work is group_lags.bounds else asyncio.run(work(None, *arguments))


TALK: Any = Talks()


def answering(monkeypatch: pytest.MonkeyPatch, **codes: Offset) -> list[Mapping[TopicPartition, int]]:
    """Have brokers answer so; what they are asked."""
    asked = []

    async def list_offsets(
        client: object, moments: Mapping[TopicPartition, int], *, timeout_ms: int
    ) -> dict[TopicPartition, Offset]:
        asked.append(moments)
        return {A: codes["a"], B: codes["b"]}

    monkeypatch.setattr(group_lags, "list_offsets", list_offsets)
    return asked


def reset(moment_ms: int) -> dict[TopicPartition, int]:
    return {one.partition: one.after for one in group_offsets._plan(TALK, (A, B), {}, ("time", moment_ms), {})}


def test_the_end_is_taken_where_all_records_are_older(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, a=Offset(Code.NONE, 20), b=Offset(Code.NONE, -1))
    assert offsets(TALK, (A, B), StartingPoint("time", 1_000)) == {A: 20, B: 70}
    assert reset(1_000) == {A: 20, B: 70}


def test_a_time_before_1970_is_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """-1 and -2 are the latest and the earliest offset for ListOffsets, and other negative times are refused: a group
    was set to the end, and `record delete` would have deleted everything."""
    asked = answering(monkeypatch, a=Offset(Code.UNSUPPORTED_VERSION, -1), b=Offset(Code.UNSUPPORTED_VERSION, -1))
    for moment_ms in (-1, -2, -2_208_988_800_000):
        assert offsets(TALK, (A, B), StartingPoint("time", moment_ms), destroys=True) == STARTS
        assert reset(moment_ms) == STARTS
    assert not asked


def test_where_no_leader_tells_the_command_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, a=Offset(Code.NONE, 20), b=Offset(Code.NOT_LEADER_OR_FOLLOWER, -1))
    with pytest.raises(SystemExit):
        offsets(TALK, (A, B), StartingPoint("time", 1_000), destroys=True)
    with pytest.raises(SystemExit):
        reset(1_000)
    without: list[TopicPartition] = []
    assert offsets(TALK, (A, B), StartingPoint("time", 1_000), without=without) == {A: 20}
    assert without == [B]


@pytest.mark.parametrize("text", ["-0", "-000"])
def test_minus_nothing_destroys_nothing(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`record delete --before -0` deleted all records: those before the last 0 of them."""
    place = PLACE.convert(text, None, None)
    with pytest.raises(SystemExit) as ended:
        offsets(TALK, (A, B), place, destroys=True)
    assert ended.value.code == 2
    assert "All there are is `latest`" in capsys.readouterr().err
    assert offsets(TALK, (A, B), place) == ENDS, "nothing is lost by reading from there"
    assert offsets(TALK, (A, B), PLACE.convert("-1", None, None), destroys=True) == {A: 49, B: 69}
