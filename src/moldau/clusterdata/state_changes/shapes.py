"""Lines of one shape, many at once: what an expression found in the first of them is where it is in all others.

The shape of a line is its text without digits, and where the digits were. No expression of ``sentences`` looks at
digits but to count them, so that it takes all lines of a shape or none, and finds the same columns at the same numbers
of the line. Lines are therefore told apart by their text without digits, and their numbers are read by NumPy, column by
column. A line whose numbers are longer than an expression takes is left to the slow way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from moldau.clusterdata.state_changes.sentences import LISTS, NUMBERS, Sentence, match_of
from moldau.model.named import NamedTuple

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Sizes = npt.NDArray[np.uint16]

TEXTS = ("level", "role", "event", "state")
"""Columns that have no digits, so that lines of a shape have them in common."""
TIME = slice(1, 24)
_TIME_RUNS = 7
_DIGITS_MOST = 9
_NAME_MOST = 249
_LINE_MOST = 60_000
_RUNS_MOST = 400
SHAPES_MOST = 20_000
"""How many texts without digits are remembered: of lines that are no sentence each may have one of its own."""
_NEW, _NONE = -2, -1


class RelativePosition(NamedTuple):
    """A place in a line: so many bytes behind the end of a number."""

    run: int
    more: int


class LineLayout(NamedTuple):
    """Which of a line's numbers (in their order, the date's among them) are which columns."""

    runs: int
    numbers: tuple[tuple[str, int, bool], ...]
    """(column, which number, whether it is below zero)."""
    lists: tuple[tuple[str, int, int], ...]
    """(column, the first number, how many)."""
    topic: tuple[RelativePosition, RelativePosition]


@dataclass(slots=True)
class _Known:
    """The shapes of one layout: bounds of the lengths of their numbers and of what is between them."""

    layout: LineLayout
    low: list[Sizes] = field(default_factory=list)
    high: list[Sizes] = field(default_factory=list)
    _stacked: tuple[Sizes, Sizes] | None = None

    def add(self, low: Sizes, high: Sizes) -> int:
        """Which of the layout's shapes this one is, from now on."""
        self.low.append(low)
        self.high.append(high)
        self._stacked = None
        return len(self.low) - 1

    def bounds(self) -> tuple[Sizes, Sizes]:
        """The bounds of all shapes, a row for each."""
        if self._stacked is None:
            self._stacked = np.array(self.low), np.array(self.high)
        return self._stacked


@dataclass(slots=True)
class ParsedLines:
    """Lines of a block. ``starts`` and ``ends`` are where they lie in it; the arrays of columns have an item for each
    line, which says something where ``taken`` does and the column's own mask does."""

    starts: Ints
    ends: Ints
    taken: Bools
    text: Ints
    """Which of ``texts`` is the line's."""
    texts: Sequence[tuple[str | None, ...]]
    topic: tuple[Ints, Ints]
    numbers: dict[str, tuple[npt.NDArray[np.int32], Bools]] = field(default_factory=dict)
    lists: dict[str, tuple[Ints, npt.NDArray[np.int32], Bools]] = field(default_factory=dict)
    """How many each line has, all of them one after the other, and which lines have a list."""


class Shapes:
    """The shapes that were seen so far, of any number of blocks. ``columns`` are those that are read."""

    def __init__(self, columns: Iterable[str]) -> None:
        self._columns = frozenset(columns)
        self._ids: dict[bytes, int] = {}
        """Texts without digits, numbered as they come."""
        self._shapes = np.zeros((0, 3), np.int64)
        """A row for each shape: its layout, which of the layout's shapes it is, and its ``TEXTS``."""
        self._known: list[_Known] = []
        self._layouts: dict[LineLayout, int] = {}
        self._texts: dict[tuple[str | None, ...], int] = {}
        self._of = np.full((64, 64), _NEW, np.int32)
        """The shape of a text without digits and a number of numbers."""

    def read(self, data: bytes) -> ParsedLines:
        """The lines of a block, and the columns of those that are of a shape that is known after it."""
        if len(self._ids) > SHAPES_MOST:
            self.__init__(self._columns)  # type: ignore[misc]  # begins anew
        raw = np.frombuffer(data, np.uint8)
        is_digit, is_end = (raw - 48) < 10, raw == 10
        breaks = np.flatnonzero(is_end)
        starts = np.concatenate(([0], breaks + 1))
        ends = np.append(breaks, len(data))
        edges = _edges(is_digit)
        sizes = np.diff(edges)
        first = np.searchsorted(edges[0::2], starts)
        runs = np.diff(first, append=len(edges) // 2)
        digits = np.diff(np.append(0, np.cumsum(sizes[0::2]))[first], append=int(sizes[0::2].sum()))
        texts = _texts(raw[~(is_digit | is_end)], ends - starts - digits)
        shape = self._shapes_of(data, texts, starts, ends, runs)
        layout, row, text = np.append(self._shapes, [[_NONE, 0, 0]], axis=0)[shape].T
        found = ParsedLines(
            starts, ends, np.zeros(len(starts), np.bool_), text, tuple(self._texts), (starts.copy(), starts.copy())
        )
        block = _Block(raw, edges[1::2], np.minimum(sizes, 65_535).astype(np.uint16), found)
        for at, known in enumerate(self._known):
            lines = np.flatnonzero(layout == at)
            if len(lines):
                block.take(known, lines, first[lines], row[lines])
        block.end()
        return found

    def _shapes_of(self, data: bytes, texts: pa.DictionaryArray, starts: Ints, ends: Ints, runs: Ints) -> Ints:
        """The shape of each line, ``_NONE`` of lines that have none."""
        ids = self._ids
        codes = np.array([ids.setdefault(one, len(ids)) for one in texts.dictionary.to_pylist()], np.int64)
        codes = codes[texts.indices.to_numpy()]
        runs = np.minimum(runs, _RUNS_MOST)
        rows, wide = max(len(ids), len(self._of)), max(int(runs.max()) + 1, self._of.shape[1])
        if (rows, wide) != self._of.shape:
            grown = np.full((rows + len(ids), wide), _NEW, np.int32)
            grown[: len(self._of), : self._of.shape[1]] = self._of
            self._of = grown
        found: npt.NDArray[np.int32] = self._of[codes, runs]
        new = np.flatnonzero(found == _NEW)
        if len(new):
            _, firsts = np.unique(codes[new] * (_RUNS_MOST + 1) + runs[new], return_index=True)
            learned: list[tuple[int, int, int]] = []
            for line in new[firsts]:
                shape = None if runs[line] >= _RUNS_MOST else self._learn(data[starts[line] : ends[line]])
                self._of[codes[line], runs[line]] = _NONE if shape is None else len(self._shapes) + len(learned)
                learned += [] if shape is None else [shape]
            if learned:
                self._shapes = np.concatenate((self._shapes, np.array(learned, np.int64)))
            found = self._of[codes, runs]
        return np.asarray(found, np.int64)

    def _learn(self, line: bytes) -> tuple[int, int, int] | None:
        """The row of a new shape, which is that of this line; None when it is no sentence."""
        if len(line) > _LINE_MOST or not line.isascii() or (match := match_of(line.decode("ascii"))) is None:
            return None
        sentence, found = match
        spans = [one.span() for one in re.finditer(rb"[0-9]+", line)]
        places = list(zip(sentence.words, found.regs[1:], strict=True))
        layout = _layout(sentence, line, spans, places, self._columns)
        at = self._layouts.setdefault(layout, len(self._layouts))
        if at == len(self._known):
            self._known.append(_Known(layout))
        row = self._known[at].add(*_bounds(spans, [span for name, span in places if name in ("", "topic")]))
        said = {name: found[group] for group, name in enumerate(sentence.words, 1)} | {"event": sentence.event}
        texts = tuple(said.get(name) for name in TEXTS)
        return at, row, self._texts.setdefault(texts, len(self._texts))


def _texts(letters: Bytes, sizes: Ints) -> pa.DictionaryArray:
    """The texts that stand one after the other in some bytes, and which of them each is."""
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    found = pa.BinaryArray.from_buffers(pa.binary(), len(sizes), [None, pa.py_buffer(offsets), pa.py_buffer(letters)])
    return found.dictionary_encode()


Span = tuple[int, int]


def _layout(
    sentence: Sentence,
    line: bytes,
    spans: Sequence[Span],
    places: Sequence[tuple[str, Span]],
    columns: frozenset[str],
) -> LineLayout:
    """Which of a line's numbers are which of the columns; ``places`` are where an expression found all of these."""
    of: dict[str, tuple[int, bool]] = {}
    lists = []
    topic = (0, 0)
    for name, (start, end) in places:
        within = [at for at, one in enumerate(spans) if start <= one[0] and one[1] <= end]
        if name in NUMBERS:
            of[name] = within[0], line[start] == ord("-")
        elif name in LISTS and name in columns:
            lists.append((name, within[0] if within else 0, len(within)))
        elif name == "topic":
            topic = start, end
    of |= {name: of[other] for name, other in sentence.same}
    numbers = tuple((name, *which) for name, which in of.items() if name in columns)
    return LineLayout(len(spans), numbers, tuple(lists), (_place(spans, topic[0]), _place(spans, topic[1])))


def _edges(is_digit: Bools) -> Ints:
    """Where numbers begin and end, by turns."""
    edges = np.flatnonzero(is_digit[1:] != is_digit[:-1]) + 1
    if len(is_digit) and is_digit[0]:
        edges = np.concatenate(([0], edges))
    return np.append(edges, len(is_digit)) if len(edges) % 2 else edges


def _place(spans: Sequence[tuple[int, int]], at: int) -> RelativePosition:
    run = max(number for number, (_, end) in enumerate(spans) if end <= at)
    return RelativePosition(run, at - spans[run][1])


def _bounds(spans: Sequence[tuple[int, int]], free: Sequence[tuple[int, int]]) -> tuple[Sizes, Sizes]:
    """The least and greatest lengths of a line's numbers and of what is between them, by turns."""
    low, high = [], []
    for at, (start, end) in enumerate(spans):
        if at:
            low.append(start - spans[at - 1][1])
            high.append(low[-1])
        if at < _TIME_RUNS:
            low.append(end - start)
            high.append(end - start)
        else:
            low.append(1)
            high.append(_LINE_MOST if any(a <= start and end <= b for a, b in free) else _DIGITS_MOST)
    return np.array(low, np.uint16), np.array(high, np.uint16)


class _Block:
    """A block whose columns are gathered, layout by layout."""

    def __init__(self, raw: Bytes, ends: Ints, sizes: Sizes, found: ParsedLines) -> None:
        self._raw, self._ends, self._sizes, self._found = raw, ends, sizes, found
        self._lists: dict[str, list[tuple[Ints, npt.NDArray[np.int32]]]] = {}
        self._count = len(found.starts)

    def take(self, known: _Known, lines: Ints, first: Ints, row: Ints) -> None:
        """Read the columns of lines of one layout; those whose numbers are too long, or lie elsewhere, are left."""
        found, layout = self._found, known.layout
        sizes = self._sizes[2 * first[:, None] + np.arange(2 * layout.runs - 1)]
        low, high = known.bounds()
        fits = ((sizes >= low[row]) & (sizes <= high[row])).all(1)
        fits &= self._ends[first] - sizes[:, 0] == found.starts[lines] + 1
        begin, end = (self._ends[first + one.run] + one.more for one in layout.topic)
        fits &= end - begin <= _NAME_MOST
        if not fits.all():
            lines, first, sizes, begin, end = lines[fits], first[fits], sizes[fits], begin[fits], end[fits]
            if not len(lines):
                return
        found.taken[lines] = True
        found.topic[0][lines], found.topic[1][lines] = begin, end
        for name, run, is_negative in layout.numbers:
            values = self._numbers(self._ends[first + run], sizes[:, 2 * run])
            column, there = self._column(name)
            column[lines], there[lines] = -values if is_negative else values, True
        for name, run, count in layout.lists:
            each = [self._numbers(self._ends[first + at], sizes[:, 2 * at]) for at in range(run, run + count)]
            values = np.stack(each, 1) if each else np.zeros((len(lines), 0), np.int32)
            self._lists.setdefault(name, []).append((lines, values))

    def end(self) -> None:
        """Put the lists of all layouts one after the other, in the order of lines."""
        for name, parts in self._lists.items():
            counts, there = np.zeros(self._count, np.int64), np.zeros(self._count, np.bool_)
            for lines, values in parts:
                counts[lines], there[lines] = values.shape[1], True
            begins = np.cumsum(counts) - counts
            flat = np.zeros(int(counts.sum()), np.int32)
            for lines, values in parts:
                flat[begins[lines][:, None] + np.arange(values.shape[1])] = values
            self._found.lists[name] = counts, flat, there

    def _column(self, name: str) -> tuple[npt.NDArray[np.int32], Bools]:
        columns = self._found.numbers
        if name not in columns:
            columns[name] = np.zeros(self._count, np.int32), np.zeros(self._count, np.bool_)
        return columns[name]

    def _numbers(self, ends: Ints, sizes: Sizes) -> npt.NDArray[np.int32]:
        """The numbers that end there and have so many digits."""
        values = (self._raw[ends - 1] & 15).astype(np.int32)
        for digit in range(1, int(sizes.max())):
            more = (self._raw[ends - 1 - digit] & 15).astype(np.int32) * np.int32(10**digit)
            values += np.where(sizes > digit, more, 0)
        return values
