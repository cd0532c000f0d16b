"""Our NamedTuple held against typing's, which it stands for."""

from __future__ import annotations

import copy
import pickle
import typing
from typing import Any

import pytest

from moldau.model.named import NamedTuple
from moldau.model.value import UNCOMPILED


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


@pytest.mark.parametrize(
    ("items", "named"), [((1,), {}), ((), {"start": 1, "end": 0}), ((1,), {"end": 0}), ((1, 0), {})]
)
def test_a_class_compiles_nothing_for_its_first_instances_which_are_the_same_as_later_ones(
    items: tuple[int, ...], named: dict[str, int]
) -> None:
    class Late(NamedTuple):
        start: int
        end: int = 0

    made, stand_in = [], vars(Late)["__new__"]
    for _ in range(UNCOMPILED):
        made.append(Late(*items, **named))
        assert vars(Late)["__new__"] is stand_in
    made.append(Late(*items, **named))
    assert vars(Late)["__new__"] is not stand_in
    assert made == [Late(1, 0)] * (UNCOMPILED + 1)


@pytest.mark.parametrize(("items", "named"), [((), {}), ((1, 2, 3), {}), ((1,), {"start": 1}), ((1,), {"ende": 1})])
def test_the_first_instance_refuses_what_a_later_one_refuses_with_the_same_words(
    items: tuple[int, ...], named: dict[str, int]
) -> None:
    def refusal(made_before: int) -> str:
        class Late(NamedTuple):
            start: int
            end: int = 0

        for _ in range(made_before):
            Late(1)
        with pytest.raises(TypeError) as refused:
            Late(*items, **named)
        return str(refused.value)

    assert refusal(0) == refusal(UNCOMPILED + 1)
