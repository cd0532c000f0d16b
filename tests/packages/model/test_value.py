"""Values: what the stdlib's frozen dataclasses promise, and what would break if they did not."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from moldau.model.value import UNCOMPILED, field, replace, value


@value
class Span:
    """Two numbers, the second with a default, and a check."""

    start: int
    end: int = 0
    names: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.start < 0:
            raise ValueError("start is negative")

    @property
    def length(self) -> int:
        return self.end - self.start


@value(kw_only=True)
class Named:
    size: int = 1
    name: str


@value(frozen=False)
class Counter:
    count: int = 0


@value
class Nothing:
    """No fields at all."""


def test_values_are_equal_by_their_fields_and_never_to_another_class() -> None:
    @value
    class Lookalike:
        start: int
        end: int = 0
        names: list[str] = field(default_factory=list)

    assert Span(1, 2) == Span(end=2, start=1)
    assert Span(1, 2) != Span(1, 3)
    assert Span(1, 2) != Lookalike(1, 2)
    assert Nothing() == Nothing()
    assert Nothing() != Span(1)


def test_a_value_refuses_to_be_changed_and_a_mutable_one_does_not() -> None:
    span, counter = Span(1), Counter()
    with pytest.raises(AttributeError, match="'end' of a Span"):
        span.end = 3  # type: ignore[misc]
    with pytest.raises(AttributeError, match="'start' of a Span"):
        del span.start
    counter.count += 1
    assert counter.count == 1
    assert not hasattr(counter, "__dict__")
    assert not hasattr(span, "__dict__")


def test_a_value_hashes_by_its_fields_and_a_mutable_one_not_at_all() -> None:
    assert len({Named(name="a"), Named(name="a", size=1), Named(name="b")}) == 2
    assert hash(Nothing()) == hash(Nothing())
    with pytest.raises(TypeError):
        hash(Counter())


def test_defaults_made_anew_are_not_shared() -> None:
    first, second = Span(1), Span(1)
    first.names.append("x")
    assert second.names == []


def test_a_missing_or_unknown_field_is_refused_from_the_first_instance_on() -> None:
    for _ in range(2):
        with pytest.raises(TypeError, match="start"):
            Span()  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="width"):
            Span(1, width=2)  # type: ignore[call-arg]
        with pytest.raises(TypeError):
            Named(1, "a")  # type: ignore[misc]
    assert Named(name="a").size == 1


def test_checks_run_when_a_value_is_made_and_when_it_is_replaced() -> None:
    with pytest.raises(ValueError, match="negative"):
        Span(-1)
    with pytest.raises(ValueError, match="negative"):
        replace(Span(1), start=-1)


def test_replacing_changes_what_is_named_and_keeps_the_rest() -> None:
    assert replace(Span(1, 2, ["a"]), end=9) == Span(1, 9, ["a"])
    with pytest.raises(TypeError):
        replace(Span(1), width=3)


def test_a_value_can_be_copied_pickled_printed_and_matched() -> None:
    span = Span(1, 2, ["a"])
    assert pickle.loads(pickle.dumps(span)) == span
    assert copy.deepcopy(span) == span
    assert copy.deepcopy(span).names is not span.names
    assert repr(span) == "Span(start=1, end=2, names=['a'])"
    assert repr(Nothing()) == "Nothing()"
    match span:
        case Span(start, end):
            assert (start, end) == (1, 2)
    assert span.length == 1


@value(kw_only=True)
class Shape:
    name: str
    corners: int | None = None


@value(kw_only=True)
class Square(Shape):
    corners: int = 4
    side: float

    @property
    def area(self) -> float:
        return self.side**2


def test_a_value_has_the_fields_of_the_one_that_it_inherits_from() -> None:
    square = Square(name="a", side=3.0)
    assert (square.name, square.corners, square.side, square.area) == ("a", 4, 3.0, 9.0)
    assert repr(square) == "Square(name='a', corners=4, side=3.0)"
    assert replace(square, name="b") == Square(name="b", side=3.0) != square
    assert pickle.loads(pickle.dumps(square)) == square
    assert Shape(name="a").corners is None
    with pytest.raises(TypeError, match="side"):
        Square(name="a")  # type: ignore[call-arg]
    with pytest.raises(AttributeError, match="name"):
        square.name = "c"  # type: ignore[misc]


def test_a_value_that_could_not_be_made_of_what_it_inherits_is_refused_as_a_class() -> None:
    with pytest.raises(TypeError, match="Later: width has no default and comes behind Span's that have"):

        @value
        class Later(Span):
            width: int

    with pytest.raises(TypeError, match="either both are frozen, or neither"):

        @value(frozen=False, kw_only=True)
        class Loose(Shape):
            side: float


def test_a_class_compiles_nothing_for_its_first_instances_which_are_the_same_as_later_ones() -> None:
    @value
    class Late:
        start: int
        end: int = 0
        names: list[str] = field(default_factory=list)

    made: list[object] = []
    stand_in = vars(Late)["__init__"]
    for _ in range(UNCOMPILED):
        made.append(Late(1, end=2))
        assert vars(Late)["__init__"] is stand_in
    made += [Late(1, end=2), Late(end=2, start=1)]
    assert vars(Late)["__init__"] is not stand_in
    assert made == [Late(1, 2, [])] * (UNCOMPILED + 2)
    assert len({id(one.names) for one in made if isinstance(one, Late)}) == len(made)


@pytest.mark.parametrize(
    ("values", "named"), [((), {}), ((1, 2, [], 4), {}), ((1,), {"start": 1}), ((1,), {"lenght": 1}), ((), {"end": 1})]
)
def test_the_first_instance_refuses_what_a_later_one_refuses_with_the_same_words(
    values: tuple[Any, ...],  # Any: what does not fit is the point
    named: dict[str, Any],
) -> None:
    def refusal(made_before: int) -> str:
        @value
        class Late:
            start: int
            end: int = 0
            names: list[str] = field(default_factory=list)

        for _ in range(made_before):
            Late(1)
        with pytest.raises(TypeError) as refused:
            Late(*values, **named)
        return str(refused.value)

    assert refusal(0) == refusal(UNCOMPILED + 1)
