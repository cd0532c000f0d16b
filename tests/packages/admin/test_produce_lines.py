"""Lines that `moldau produce` reads are those of the input, however the system cuts them."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

import moldau.admin.produce
from moldau.admin.produce import _lines


class Cut(io.BytesIO):
    """An input of which each read gives no more bytes than asked for by ``sizes``, in turn."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        super().__init__(data)
        self._sizes = sizes

    def read1(self, size: int | None = -1, /) -> bytes:
        self._sizes.append(self._sizes.pop(0))
        return super().read1(self._sizes[0])


@given(st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r\n"]), max_size=40), st.lists(st.integers(1, 9), min_size=1))
def test_lines_are_the_same_however_they_come(parts: list[bytes], sizes: list[int]) -> None:
    data = b"".join(parts)
    read = [line for lines, _ in _lines(Cut(data, sizes), lambda: None) for line in lines]
    assert read == [line.removesuffix(b"\n") for line in io.BytesIO(data)]


def test_a_line_without_end_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(moldau.admin.produce, "LINE_BYTES_MAX", 100)
    with pytest.raises(SystemExit):
        list(_lines(Cut(b"a" * 101, [7]), lambda: None))
    assert "a line is longer than 100 bytes" in capsys.readouterr().err
