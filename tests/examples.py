"""How many examples a test draws that needs more, or fewer, than a profile's (tests/conftest.py)."""

from __future__ import annotations

from hypothesis import settings

USUAL = settings.get_profile("default").max_examples


def examples(count: int) -> int:
    """``count``, or as large a part of it as the profile takes of the usual number: a tenth under `seconds`. A number
    that stands in a test's own settings would be taken under every profile."""
    return max(1, count * min(settings().max_examples, USUAL) // USUAL)
