"""A test that may take long is ended by its own limit, which says which it was, and not by what ends the process."""

from __future__ import annotations

import faulthandler

import pytest
from tests.conftest import GRACE_S, give_its_own_limit


@pytest.mark.parametrize("limit_s", [30, 900, 901, 3_600])
def test_the_process_is_ended_after_the_limit_of_its_test(
    limit_s: int, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of pipelines under kills the process was ended after 16 minutes of 60."""
    armed: list[float] = []

    def arm(timeout: float, **named: object) -> None:
        assert named["exit"]
        armed.append(timeout)

    monkeypatch.setattr(faulthandler, "dump_traceback_later", arm)
    most_s = float(request.config.getini("faulthandler_timeout"))
    request.node.add_marker(pytest.mark.timeout(limit_s), append=False)
    give_its_own_limit(request.node)
    assert armed == ([limit_s + GRACE_S] if limit_s + GRACE_S > most_s else [])
    assert max([most_s, *armed]) >= limit_s + GRACE_S
