"""Our NamedTuple held against typing's, which it stands for."""

from __future__ import annotations

import copy
import pickle
import typing
from typing import Any

import pytest

from moldau.model.named import NamedTuple


class Span(NamedTuple):
    """Two numbers, the second with a default."""

    start: int
    end: int = 0

    @property
    def length(self) -> int:
        return self.end - self.start


class TheirSpan(typing.NamedTuple):
    """The same, from the stdlib."""

    start: int
    end: int = 0


class Nothing(NamedTuple):
    """No fields at all."""


def test_it_is_made_read_compared_and_unpacked_as_typings_is() -> None:
    for kind in (Span, TheirSpan):
        span: Any = kind(1, end=5)
        start, end = span
        assert (span.start, span.end, start, end) == (1, 5, 1, 5)
        assert span == (1, 5)
        assert hash(span) == hash((1, 5))
        assert kind(1) < kind(2)
        assert span._fields == ("start", "end")
        assert span._replace(end=7) == (1, 7)
        assert type(span._replace(end=7)) is kind
        assert kind._make([3, 4]) == (3, 4)
        assert span._asdict() == {"start": 1, "end": 5}
        with pytest.raises(AttributeError):
            span.start = 3
    assert repr(Span(1)) == "Span(start=1, end=0)"
    assert Span(1, 4).length == 3
    assert Nothing() == ()


def test_wrong_fields_are_refused_from_the_first_instance_on() -> None:
    class Fresh(NamedTuple):
        only: int

    for _ in range(2):
        for make in (Fresh, lambda: Fresh(1, 2), lambda: Fresh(other=1)):  # type: ignore[call-arg]
            with pytest.raises(TypeError):
                make()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Span._make([1])
    with pytest.raises(ValueError, match="width"):
        Span(1)._replace(width=1)  # type: ignore[call-arg]


def test_it_can_be_copied_pickled_and_matched() -> None:
    span = Span(1, 2)
    assert pickle.loads(pickle.dumps(span)) == span
    assert type(copy.deepcopy(span)) is Span
    match span:
        case Span(start, end=2):
            assert start == 1
        case _:
            raise AssertionError
