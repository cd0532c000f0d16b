"""Error codes as numbers from others."""

from __future__ import annotations

import pytest

from moldau.model import Code


@pytest.mark.parametrize("number", [-2, 12_345, -32_768])
def test_a_code_that_we_do_not_know_is_an_unknown_error(number: int) -> None:
    assert Code(number) is Code.UNKNOWN_SERVER_ERROR


def test_every_code_is_found_by_its_number_and_what_is_no_number_is_none() -> None:
    assert all(Code(int(code)) is code for code in Code)
    with pytest.raises(ValueError, match="NONE"):
        Code("NONE")  # type: ignore[arg-type]  # what no type allows is what this is about
