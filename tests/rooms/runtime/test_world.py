"""What the real world gives a node: here, ids."""

from __future__ import annotations

import os

import pytest

from moldau.runtime.world import RealRandom
from moldau.terms.ids import uuid_text


def test_no_id_is_drawn_that_a_command_line_would_take_for_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter([b"\xf8" + bytes(15), b"\xfb" + bytes(15), b"\xfc" + bytes(15)])
    monkeypatch.setattr(os, "urandom", lambda n: next(drawn))
    assert uuid_text(RealRandom().uuid())[0] == "_"
