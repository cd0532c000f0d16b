"""Errors in the words of whoever raised them: Spark carries an error through its processes as the text of a traceback.

What Moldau says itself is shown whole, with the commands that mend it in the place of the calls of Python.
"""

from __future__ import annotations

import re

_OWN = re.compile(r"(?m)^(?:.*Return Message: )?moldau(?:\.\w+)+\.(\w+): ")
_AFTER = re.compile(r"\n\s*\n|\n?\s*SQLSTATE: \w+|\n=== Streaming Query|\n\s+at |\nTraceback \(most|\nDuring handling")
"""What follows an error's own text where Spark has put it."""
_TRACEBACK = "Traceback (most recent call last):"
_MOST = 500

RESET = "`moldau pipeline reset FILE --to POSITION` begins elsewhere (--dry-run says what that costs)"
LOSS = f"In the file's `source`, `on_loss: skip` (onDataLoss) goes on with what is there; {RESET}."
_LEDGER = (
    f"{RESET}, and lets tables take whatever comes next; `moldau spark rewind TABLE BATCH --pipeline NAME` takes a "
    "table back to the end of an earlier batch before."
)


def words(error: BaseException) -> str:
    """What went wrong, in full: Moldau's own words wherever they stand in the text, or what another says first."""
    from moldau.spark.tables.ledger import LedgerError

    if isinstance(error, LedgerError):
        return f"{error.what}\n{_LEDGER}" if error.advice else error.what
    text = str(error).strip() or type(error).__name__
    found = list(_OWN.finditer(text))
    if found:
        own, name = text[found[-1].end() :], found[-1][1]
        own = _AFTER.split(own, maxsplit=1)[0].strip()
        if name == "DataLossError":
            lines = [line for line in own.splitlines() if not line.startswith("Set onDataLoss=skip")]
            return "\n".join([*lines, LOSS])
        return own
    lines = [line for line in text.splitlines() if line.strip()]
    return first_line(error) if len(lines) > 6 else "\n".join(lines)


def first_line(error: BaseException) -> str:
    """What a message says first; of one that begins with Python's traceback, what that ends with."""
    lines = (str(error).strip() or type(error).__name__).splitlines()
    first = lines[0]
    if first.endswith(_TRACEBACK):
        said = [line.strip() for line in lines[1:] if line[:1].strip() and ": " in line]
        first = first.removesuffix(_TRACEBACK) + (said[0] if said else lines[-1])
    if len(first) <= _MOST:
        return first
    return f"{first[:_MOST].rpartition(' ')[0]} ..."


def is_own(error: BaseException) -> bool:
    """Whether an error is one of Moldau's, which says itself what is the matter."""
    return type(error).__module__.partition(".")[0] == "moldau"
