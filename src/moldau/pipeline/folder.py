"""The folder of a pipeline: checkpoint, books, where it begins, what it is doing; and that one process runs it.

``checkpoint/`` is Spark's. ``start.json`` is written by a reset, and says where the next checkpoint begins;
``resetting.json`` is there while a reset is under way, and after one that was cut off.
``state.json`` is what ``status`` shows of the running process.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from moldau.pipeline.books import Books
from moldau.pipeline.owner import OWNER, other_owner
from moldau.pipeline.said import RESET
from moldau.pipeline.spec import Pipeline
from moldau.pipeline.typed import read_json
from moldau.spark.tables.stores import Store, open_store

CHECKPOINT = "checkpoint"
START = "start.json"
RESETTING = "resetting.json"
STATE = "state.json"
LOCK = "lock"
ALIVE = "alive"
"""Locked while a process has ``lock``: readers look at this file, so that none of them keeps a run from its lock."""


class IsRunning(RuntimeError):
    """Another process runs the pipeline; the message names it."""


class CutOffReset(RuntimeError):
    """A reset was cut off, and has to be finished before anything else; the message says how."""


class BrokenPipelineFile(RuntimeError):
    """A file of the folder that holds something else than it should; the message names it."""


@dataclass(frozen=True, slots=True)
class RunState:
    """What the pipeline's process was doing when it last said so: ``running``, ``paused``, ``failed``, ``stopped``."""

    state: str
    pid: int
    at_ms: int
    message: str = ""


@dataclass(frozen=True, slots=True)
class Begin:
    """Where a new checkpoint begins, and the number of the line of the books that comes next; None in files of before
    this was kept."""

    start: str
    line: int | None = None


class PipelineFolder:
    """One pipeline's folder."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.store: Store = open_store(pipeline.folder)
        self.books = Books(self.store)
        self._name = pipeline.name

    @property
    def checkpoint(self) -> str:
        return f"{self.store.uri}/{CHECKPOINT}"

    def refuse_other(self) -> None:
        """BrokenPipelineFile where the folder is another pipeline's, as of a file that was copied: each would go on
        where the other is."""
        owner = (self.store.read(OWNER) or b"").decode(errors="replace").strip()
        if owner and owner != self._name:
            raise BrokenPipelineFile(other_owner(self.store.uri, owner, self._name))

    def say_if_possible(self, state: str, message: str) -> None:
        """Note why this process ends, unless the folder itself is what cannot be written."""
        with contextlib.suppress(OSError):
            self.say(state, message)

    def has_checkpoint(self) -> bool:
        return bool(self.store.names(f"{CHECKPOINT}/offsets"))

    def has_query(self) -> bool:
        """Whether Spark has begun the query of the checkpoint."""
        return bool(self.store.names(CHECKPOINT, "metadata"))

    def start(self) -> str | None:
        """Where a new checkpoint begins, when a reset has said so."""
        found = self._begin()
        return None if found is None else found.start

    def _begin(self) -> Begin | None:
        found = self.store.read(START)
        try:
            return None if found is None else read_json(Begin, found)
        except ValueError:
            raise BrokenPipelineFile(
                f"{self.store.uri}/{START} does not say where to begin; reset the pipeline again"
            ) from None

    def begin_at(self, start: str) -> None:
        """Let the next checkpoint begin there."""
        self.store.write(START, json.dumps(asdict(Begin(start, self.books.next()))).encode())

    def begin_anew(self) -> None:
        """Let the next checkpoint begin where the file says."""
        self.store.delete(START)

    def begin_reset(self, start: str) -> None:
        """Note that a reset to this position is under way: it changes tables, the start and the checkpoint one after
        the other, and a run in between would go on where the checkpoint was, with tables that take whatever comes."""
        self.store.replace(RESETTING, json.dumps({"start": start}).encode())

    def end_reset(self) -> None:
        """Note that all of the reset is done."""
        self.store.delete(RESETTING)

    def cut_off_reset(self) -> str | None:
        """The sentence that says that a reset was cut off and what finishes it; None where none was."""
        found = self.store.read(RESETTING)
        if found is None:
            return None
        try:
            start = str(json.loads(found)["start"])
        except (ValueError, TypeError, KeyError):
            start = "POSITION"
        return (
            f"a reset to {start} was cut off, and is done in part: tables may take whatever comes next while the"
            f" checkpoint goes on where it was. `moldau pipeline reset FILE --to '{start}'` finishes it, as does one to"
            " elsewhere"
        )

    def has_lost_checkpoint(self) -> bool:
        """Whether the stream has written since it was told where to begin, and its checkpoint is not there."""
        if self.has_checkpoint() or (line := self.books.newest_of_stream()) is None:
            return False
        begin = self._begin()
        return begin is None or (begin.line is not None and line.sequence >= begin.line)

    @property
    def lost_checkpoint(self) -> str:
        """The sentence that says that the checkpoint is gone."""
        line = self.books.newest_of_stream()
        batch = "" if line is None else f", and the books end with its batch {line.batch}"
        return f"{self.checkpoint} is gone{batch}"

    def contradictions(self) -> list[str]:
        """What the checkpoint and the books say of each other that cannot be, a sentence each."""
        if self.has_lost_checkpoint():
            return [self.lost_checkpoint]
        committed, last = self._committed(), self.books.last()
        if committed is None:
            return []
        query, batch = committed
        if last is None:
            return [f"the books are gone, and the checkpoint has committed batch {batch}"]
        newest = last.totals.newest
        if newest is not None and newest[0] == query and newest[1] < batch:
            return [f"the books end with batch {newest[1]}, and the checkpoint has committed batch {batch}"]
        if newest is not None and newest[0] != query:  # a new one has its first batch in the books before it commits it
            return [
                f"the books end with batch {newest[1]} of another checkpoint than the one that is there, which has "
                f"committed batch {batch}"
            ]
        return []

    def _committed(self) -> tuple[str, int] | None:
        """The query of the checkpoint, and the newest batch that Spark has committed there."""
        named = [name.rpartition("/")[2] for name in self.store.names(f"{CHECKPOINT}/commits")]
        numbers = [int(name) for name in named if name.isdigit()]
        content = self.store.read(f"{CHECKPOINT}/metadata")
        if not numbers or content is None:
            return None
        try:
            query = json.loads(content)["id"]
        except (ValueError, TypeError, KeyError):
            raise BrokenPipelineFile(
                f"{self.checkpoint}/metadata does not name a query; restore it, or {RESET}"
            ) from None
        return str(query), max(numbers)

    def set_checkpoint_aside(self) -> str | None:
        """Rename the checkpoint, so that the next run makes a new one; its new name, None when there was none. One
        without a batch goes too: the first positions that it holds would be taken in place of a new start."""
        if not self.store.names(CHECKPOINT):
            return None
        name = f"{CHECKPOINT}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"
        self.store.filesystem.move(self.store.at(CHECKPOINT), self.store.at(name))
        return name

    def state(self) -> RunState | None:
        """What the process said last; ``lost`` when it said that it runs, and is there no more."""
        found = self.store.read(STATE)
        if found is None:
            if self.books.last() is None:
                return None
            return RunState("unknown", 0, 0, f"{self.store.uri}/{STATE} is gone; the next run writes it anew")
        try:
            state = read_json(RunState, found)
        except ValueError:
            return RunState("unknown", 0, 0, f"{self.store.uri}/{STATE} cannot be read; the next run writes it anew")
        if state.state == "running" and self.store.local and not self.is_locked():
            return RunState("lost", state.pid, state.at_ms, "its process ended without a word; `run` goes on")
        if state.state == "paused" and self.store.local and not self.is_locked():
            again = "No process tries it again: `moldau pipeline run` does"
            return replace(state, message=f"{state.message} {again}".strip())
        return state

    def say(self, state: str, message: str = "") -> None:
        """Note what this process does."""
        self.store.make_folder()
        content = json.dumps(asdict(RunState(state, os.getpid(), round(time.time() * 1000), message))).encode()
        self.store.replace(STATE, content)

    def is_locked(self) -> bool:
        """Whether a process of this machine runs the pipeline."""
        try:
            with Path(self.store.at(ALIVE)).open() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return False

    @contextlib.contextmanager
    def locked(self, *, after_cut_off_reset: bool = False) -> Iterator[None]:
        """Hold the pipeline for this process; IsRunning when another has it, CutOffReset where a reset was cut off,
        unless this goes ``after_cut_off_reset``. In a store, Spark's checkpoint and the tables' ledgers are what keeps
        two processes apart."""
        self.refuse_other()
        if not self.store.local:
            self._refuse_cut_off_reset(allowed=after_cut_off_reset)
            self.store.replace(OWNER, self._name.encode())
            yield
            return
        self.store.make_folder()
        path = Path(self.store.at(LOCK))
        with path.open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.seek(0)
                who = file.read().strip() or "(unknown)"
                raise IsRunning(f"process {who} runs the pipeline of {path.parent}") from None
            with self.store.named(LOCK):  # without Python's buffer, whose rest fails again when the file is closed
                os.ftruncate(file.fileno(), 0)
                os.write(file.fileno(), str(os.getpid()).encode())
            self.refuse_other()  # another pipeline's first run may have been quicker
            self._refuse_cut_off_reset(allowed=after_cut_off_reset)
            self.store.replace(OWNER, self._name.encode())
            with Path(self.store.at(ALIVE)).open("a") as alive:
                fcntl.flock(alive, fcntl.LOCK_EX)  # waits for a reader, who has it for a moment
                yield

    def _refuse_cut_off_reset(self, *, allowed: bool) -> None:
        if not allowed and (told := self.cut_off_reset()) is not None:
            raise CutOffReset(f"{told}; nothing else is done before")
