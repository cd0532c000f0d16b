"""``Protocol`` as classes of ours use it at run time; type checkers see typing's."""

from __future__ import annotations

from typing import TypeVar

from moldau.model.protocol import Protocol

T_co = TypeVar("T_co", covariant=True)


class Sized(Protocol):
    """What has a size."""

    def size(self) -> int: ...


class Source(Protocol[T_co]):
    """What gives items."""

    def next(self) -> T_co: ...


class Both(Sized, Source[int], Protocol):
    """What has a size and gives numbers."""


class Numbers:
    """One that inherits from none of them."""

    def size(self) -> int:
        return 1

    def next(self) -> int:
        return 7


class Declared(Both):
    """One that does."""

    def size(self) -> int:
        return 2

    def next(self) -> int:
        return 8


def test_a_class_fits_a_protocol_whether_it_inherits_from_it_or_not() -> None:
    given: list[Both] = [Numbers(), Declared()]
    assert [(one.size(), one.next()) for one in given] == [(1, 7), (2, 8)]


def test_a_protocol_is_a_class_of_no_other_kind() -> None:
    assert type(Both) is type
    assert Both.__mro__ == (Both, Sized, Source, Protocol, object)
