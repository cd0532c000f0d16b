"""Errors in the words of whoever raised them: Spark carries an error through its processes as the text of a traceback.

What Moldau says itself is shown whole, with the commands that mend it in the place of the calls of Python.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from moldau.spark.losses import LossKind

_OWN = re.compile(r"(?m)^(?:.*Return Message: )?moldau(?:\.\w+)+\.(\w+): ")
_AFTER = re.compile(r"\n\s*\n|\n?\s*SQLSTATE: \w+|\n=== Streaming Query|\n\s+at |\nTraceback \(most|\nDuring handling")
"""What follows an error's own text where Spark has put it."""
_TRACEBACK = "Traceback (most recent call last):"
_CAUSE = re.compile(r"(?ms)^(?:Caused by|): (.*?)(?=\n\s+(?:at |\.\.\.)|\nCaused by: |\Z)")
"""What one of Java's errors says, in a text that has the stack of each."""
_CLASS = re.compile(r"^(?:javax?|org|scala|com)(?:\.[\w$]+)+: (?=\S)")
_CALLING = "An error occurred while calling "
_PROXY = re.compile(r"^.*?An exception was raised by the Python Proxy\. Return Message: (?=\S)")
"""What stands before an error of Python's where Java carries it."""
_IN_FILES = {"evolve=True": "`evolve: true`"}
"""What a file says in place of an argument of Python's."""
_OPTION = re.compile(r"\boption (\w+) (?=is )")
_OF_SOURCE = {
    "subscribe": "topics", "subscribepattern": "pattern", "startingoffsets": "start",
    "maxoffsetspertrigger": "max_records", "maxbytespertrigger": "max_bytes", "ondataloss": "on_loss",
}  # fmt: skip
"""What the file's ``source`` says in place of an option of the data source."""
_BELOW = re.compile(r"\s*\n\s*(?:\x1b\[\d+m)?↳(?:\x1b\[0m)?\s*")
"""How delta-rs begins the line of each cause below what it says first, which names none."""
_STATE = re.compile(r"\s*SQLSTATE: \w+;?\s*$")
_MOST = 500

RESET = "`moldau pipeline reset FILE --to POSITION` begins elsewhere (--dry-run says what that costs)"
LOSS = f"In the file's `source`, `on_loss: skip` (onDataLoss) goes on with what is there; {RESET}."
LISTED = "What was taken out of the file's `topics` is gone on with when it is named there again."
_LEDGER = (
    f"{RESET}, and lets tables take whatever comes next; `moldau spark rewind TABLE BATCH --pipeline NAME` takes a "
    "table back to the end of an earlier batch before."
)


FAULTS = (AssertionError, AttributeError, IndexError, KeyError, NameError, TypeError)
"""Faults of the program, whose place is worth more than a line."""


class PartFailed(RuntimeError):
    """A part of a batch could not be done; the message names it and says why."""


@contextlib.contextmanager
def named(part: str) -> Iterator[None]:
    """Have errors of Spark, and of whatever else is called meanwhile, name this part of a batch: PartFailed. What
    Moldau says itself stays as it is, and so do faults of the program."""
    try:
        yield
    except Exception as error:
        if is_own(error) or _OWN.search(str(error)) or type(error) in FAULTS:
            raise
        raise PartFailed(f"{part}: {first_line(error)}") from error


def words(error: BaseException) -> str:
    """What went wrong, in full: Moldau's own words wherever they stand in the text, or what another says first; with
    the file's words in the place of Python's."""
    text = _in_full(error)
    for python, ours in _IN_FILES.items():
        text = text.replace(python, ours)
    return _OPTION.sub(_of_source, text)


def _of_source(option: re.Match[str]) -> str:
    name = _OF_SOURCE.get(option[1].lower())
    return option[0] if name is None else f"source: {name} "


def _in_full(error: BaseException) -> str:
    from moldau.spark.tables.ledger import LedgerError

    if isinstance(error, LedgerError):
        return f"{error.what}\n{_LEDGER}" if error.advice else error.what
    text = _text(error)
    found = list(_OWN.finditer(text))
    if found:
        own, name = text[found[-1].end() :], found[-1][1]
        own = _AFTER.split(own, maxsplit=1)[0].strip()
        if name == "DataLossError":
            lines = [line for line in own.splitlines() if not line.startswith("Set onDataLoss=skip")]
            listed = [LISTED] if LossKind.NOT_LISTED in own else []
            return "\n".join([*lines, *listed, LOSS])
        return own
    lines = [line for line in text.splitlines() if line.strip()]
    return first_line(error) if len(lines) > 6 or text.startswith(_CALLING) or _PROXY.match(text) else "\n".join(lines)


def first_line(error: BaseException) -> str:
    """What a message says first; of one with Python's traceback, what that ends with; of one of Java's that says no
    more than what was called, its last cause."""
    text = _text(error)
    if isinstance(error, OSError) and error.strerror:  # without Python's number of it
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if text.startswith(_CALLING) and (causes := _CAUSE.findall(text)):
        text = causes[-1].strip()
    lines = _CLASS.sub("", text).splitlines()
    first, rest = lines[0], lines[1:]
    if not first.endswith(_TRACEBACK) and rest and rest[0].strip() == _TRACEBACK:  # of a worker
        first, rest = _TRACEBACK, rest[1:]
    if first.endswith(_TRACEBACK):
        said = [line.strip() for line in rest if line[:1].strip() and ": " in line]
        first = first.removesuffix(_TRACEBACK) + (said[0] if said else lines[-1])
    first = _PROXY.sub("", first)
    first = _STATE.sub("", first) or first
    if len(first) <= _MOST:
        return first
    return f"{first[:_MOST].rpartition(' ')[0]} ..."


def _text(error: BaseException) -> str:
    """The error's text, with each cause that delta-rs has below a line in that line."""
    return _BELOW.sub(": ", str(error).strip()) or type(error).__name__


def one_line(text: str) -> str:
    """What a producer may have written as one line, with what would move a terminal's cursor escaped."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def is_own(error: BaseException) -> bool:
    """Whether an error is one of Moldau's, which says itself what is the matter."""
    return type(error).__module__.partition(".")[0] == "moldau"
