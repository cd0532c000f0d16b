"""What a check of the doctor says: how bad it is, what it is about, what is wrong, and what mends it."""

from __future__ import annotations

from collections.abc import Collection

from moldau.model.named import NamedTuple

ERROR, WARNING, NOTE = "error", "warning", "note"
SEVERITIES = (ERROR, WARNING, NOTE)
NAMED_MAX = 5


class Finding(NamedTuple):
    """One thing that is wrong, or worth knowing (``note``)."""

    severity: str
    about: str
    what: str
    mend: str


def some(names: Collection[object]) -> str:
    """The first few names, and how many more there are."""
    shown = ", ".join(str(one) for one in list(names)[:NAMED_MAX])
    return f"{shown} and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else shown
