"""How far long work is: a line with a bar, redrawn on a terminal; a line now and then where there is none.

Progress is for people, so it goes to standard error. Whatever else is printed meanwhile goes through ``note`` and
``say`` of output.py, which take the bar away first.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from types import TracebackType

from moldau.admin import output
from moldau.admin.rate import time_text

REDRAW_S = 0.1
LINE_S = 5.0
"""How often a line is written where nothing can be redrawn, as in a log file."""
BAR, CELLS = "#", 20
SURE_S = 2.0
"""How long work has gone on before its end is guessed."""


class ProgressBar:
    """How far one piece of work is; used in a ``with``, which takes the bar away at the end.

    Args:
        what: what is done, in a word or two.
        total: how much there is to do; None when nobody knows.
        shown: an amount in words.
        lines: whether lines are written where there is no terminal: for what is worth telling a log file.
    """

    def __init__(
        self,
        what: str,
        total: float | None = None,
        *,
        shown: Callable[[float], str] = "{:.0f}".format,
        lines: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what, self._shown, self._clock = what, shown, clock
        self.total = total
        self._bar = is_redrawn()
        self._lines = lines
        self._began = self._told = clock()
        self._due: str | None = None
        self._first: float | None = None
        self._seen = ""

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            output.take_bar_away()
        elif self._due is not None and self._seen and kind is None:
            self._write(self._due)

    def at(self, done: float, words: str | None = None) -> None:
        """So much is done; ``words`` stand for the amounts where they say more."""
        now = self._clock()
        self._first = done if self._first is None else self._first
        text = words if words is not None else self._amounts(done)
        if self._bar:
            if now - self._told >= REDRAW_S or not self._seen or (words is not None and text != self._seen):
                self._told, self._seen = now, text
                output.draw_bar(self._line(done, text, now))
        elif self._lines and text != self._seen:
            self._due = text
            if now - self._told >= LINE_S or (words is not None and not self._seen):
                self._write(text)

    def _write(self, text: str) -> None:
        self._told, self._seen, self._due = self._clock(), text, None
        output.note(f"{self._what}: {text}" if self._what else text)

    def _amounts(self, done: float) -> str:
        return self._shown(done) + (f" of {self._shown(self.total)}" if self.total is not None else "")

    def _line(self, done: float, text: str, now: float) -> str:
        head = f"{self._what} " if self._what else ""
        if not self.total:
            return f"{head}{text}"
        share = min(max(done / self.total, 0.0), 1.0)
        cells = int(share * CELLS)
        line = f"{head}[{BAR * cells}{'.' * (CELLS - cells)}] {share:4.0%}  {text}"
        gained = done - (self._first or 0)
        if gained > 0 and done < self.total and now - self._began >= SURE_S:
            line += f", about {time_text((self.total - done) * (now - self._began) / gained)} left"
        return line


def is_redrawn() -> bool:
    """Whether a line can be redrawn: standard error is a terminal that moves its cursor."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
