"""The checksum is loaded past its package; it must be the same one, and there must be a way back."""

from __future__ import annotations

from importlib.machinery import PathFinder
from typing import Any

import crc32c as package
import pytest

from moldau.wire import crc


@pytest.mark.parametrize("size", [0, 1, 9, 61, 4096, 100_000])
def test_it_sums_as_the_package_does(size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    assert crc.crc32c(data[:size]) == package.crc32c(data[:size])
    assert crc.crc32c(data[size // 2 : size], crc.crc32c(data[: size // 2])) == package.crc32c(data[:size])
    assert crc.crc32c(b"123456789") == 0xE3069283  # the check value of CRC-32/ISCSI


def test_a_package_of_another_shape_is_imported_as_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    find: Any = PathFinder.find_spec
    monkeypatch.setattr(
        PathFinder, "find_spec", lambda name, path=None: None if name == "_crc32c" else find(name, path)
    )
    assert crc._extension() is package
