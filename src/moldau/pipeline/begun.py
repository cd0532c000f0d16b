"""What a batch under way was begun with, noted before anything of it is written: by this another run of it either
finishes the same batch, or is refused because it would write other rows than the places that have it already.

One note for each kind of batch, ``begun/batch.json``; the note of a batch that is in the books says nothing any more.
Read next: batches.py (who notes), unfinished.py (what can be done about a batch that cannot be finished).
"""

from __future__ import annotations

import functools
import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from moldau.pipeline.books import BATCH
from moldau.pipeline.checkpoints import query_of
from moldau.pipeline.folder import BrokenPipelineFile, PipelineFolder
from moldau.pipeline.said import FAULTS, words
from moldau.pipeline.spec import OnError, Pipeline
from moldau.pipeline.typed import read_json
from moldau.spark.tables import BatchKey
from moldau.spark.tables.stores import Store

FOLDER = "begun"
ABANDON = "`moldau pipeline abandon FILE` takes back what was written of it (--dry-run says what of it, and what stays)"


class CutOff(RuntimeError):
    """A batch of the stream has to be finished before anything else; the message says how."""


class HalfWritten(RuntimeError):
    """A batch that some places have, and that would come to other rows now; the message says which, and what to do."""


@dataclass(frozen=True, slots=True)
class Note:
    """A batch that was begun.

    ``judged`` tells which of its records had which outcome, ``rows`` what the transformation is and gave; both are
    empty of a batch that was abandoned. ``attempt`` counts how often it was. ``topics`` are those that may have records
    of it by a sink.
    """

    query: str
    batch: int
    attempt: int = 0
    judged: str = ""
    rows: str = ""
    topics: Sequence[str] = ()
    sources: Sequence[str] = ()
    """The topics that its records are of."""


class BegunBatch:
    """The note of one kind of batch (``batch``, ``replay``, ``backfill``) in a pipeline's folder."""

    def __init__(self, store: Store, kind: str) -> None:
        self._store, self._name = store, f"{FOLDER}/{kind}.json"
        self._newest: Note | None = None

    def note(self) -> Note | None:
        """The newest note, None where there is none; BrokenPipelineFile when the file holds something else."""
        if self._newest is not None:  # who writes notes holds the pipeline, so nobody else writes them meanwhile
            return self._newest
        found = self._store.read(self._name)
        try:
            return None if found is None else read_json(Note, found)
        except ValueError as error:
            raise BrokenPipelineFile(
                f"{self._store.uri}/{self._name} does not say what a batch was begun with ({error}); restore it, or "
                "remove it where the file of the pipeline has not changed since"
            ) from None

    def note_of(self, key: BatchKey) -> Note:
        """The note of this batch, an empty one where it was never begun."""
        found = self.note()
        same = found is not None and (found.query, found.batch) == (key.query_id, key.batch_id)
        return found if found is not None and same else Note(key.query_id, key.batch_id)

    def begin(
        self, key: BatchKey, judged: str, rows: str, places: Callable[[], Sequence[str]], sources: Sequence[str] = ()
    ) -> None:
        """Note the batch. HalfWritten when it was begun otherwise and ``places`` gives tables that have it, or topics
        may have it."""
        before = self.note_of(key)
        if (before.judged, before.rows) == (judged, rows):
            return
        if before.judged:
            there = [*places(), *(f"topic {name}" for name in before.topics)]
            if there:
                raise HalfWritten(_refusal(key, there, judged=before.judged != judged))
        self._write(replace(before, judged=judged, rows=rows, sources=sources))

    def to_topic(self, key: BatchKey, topic: str) -> None:
        """Note that the topic may have records of the batch from now on."""
        before = self.note_of(key)
        if topic not in before.topics:
            self._write(replace(before, topics=[*before.topics, topic]))

    def abandon(self, key: BatchKey) -> None:
        """Let the batch be begun anew, with whatever it comes to then."""
        self._write(Note(key.query_id, key.batch_id, self.note_of(key).attempt + 1))

    def marked(self, key: BatchKey) -> BatchKey:
        """The key by which records in topics are marked: another one after the batch was abandoned, since a mark that
        was used for another record would have ``once`` leave one of them out."""
        attempt = self.note_of(key).attempt
        return key._replace(query_id=f"{key.query_id}+{attempt}") if attempt else key

    def _write(self, note: Note) -> None:
        self._store.replace(self._name, json.dumps(asdict(note)).encode())
        self._newest = note


def refuse_while_cut_off(pipeline: Pipeline, folder: PipelineFolder, what: str) -> None:
    """CutOff while a batch of the stream was begun and is not in the books, where records are compared with those of
    other batches: it goes by what was in the books when it began, and would let through again what comes between."""
    if pipeline.dedup is None:
        return
    note, line = BegunBatch(folder.store, BATCH).note(), folder.books.newest_of_stream()
    if note is None or not note.judged or note.query != query_of(folder.store):
        return
    if line is not None and line.query == note.query and line.batch >= note.batch:
        return
    raise CutOff(
        f"batch {note.batch} was cut off before the books had it, and {what} would come between, which `dedup` cannot"
        " have: finish the batch first: `moldau pipeline run FILE --once`"
    )


@contextmanager
def told_of_abandon(name: str) -> Iterator[None]:
    """Add to an error what can be done about something that was cut off before and cannot be finished: it comes first,
    and would hold up all that follows."""
    try:
        yield
    except Exception as error:
        if type(error) in FAULTS:  # the program's own, which are shown whole
            raise
        text = words(error)
        more = "" if "moldau pipeline abandon" in text else f"; {ABANDON}"
        raise HalfWritten(f"{text}\n{name} was cut off before, and is finished before anything else{more}") from error


def rows_of(pipeline: Pipeline, schema: str, count: int) -> str:
    """What decides the rows of a batch beside which records are well: decoding, steps with the modules of functions,
    the columns that came of them and how many rows. Where a schema is kept, and that it is now named which one was the
    newest, decides nothing."""
    decode = replace(pipeline.decode, on_error=OnError.PAUSE, schema_file=None, registry=None, version=None)
    steps = [(step.sql, step.python, _source(step.python)) for step in pipeline.steps]
    return digest([decode, steps, schema, count])


def digest(what: object) -> str:
    """A short text that differs where the values differ."""
    return hashlib.sha256(repr(what).encode()).hexdigest()[:32]


@functools.cache
def _source(function: str | None) -> bytes:
    """The text of the module that a step's function is in, as far as it was loaded from a file: as it was when it was
    asked for first, since an edit of the file changes nothing in this process."""
    loaded = sys.modules.get((function or "").partition(":")[0])
    file = getattr(loaded, "__file__", None)
    return Path(file).read_bytes() if file is not None and Path(file).is_file() else b""


def _refusal(key: BatchKey, there: Sequence[str], *, judged: bool) -> str:
    what = (
        "decode, checks or dedup now judge its records otherwise than then (after an edit, or by the clock)"
        if judged
        else "decode or transform would now give other rows than then"
    )
    verb = "has it" if len(there) == 1 else "have it"
    return (
        f"batch {key.batch_id} is half written: {', '.join(there)} {verb}, and {what}. Undo the edit and run again, or "
        f"{ABANDON}"
    )
