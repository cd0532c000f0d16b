"""The folder of a pipeline: checkpoint, books, where it begins, what it is doing; and that one process runs it.

``checkpoint/`` is Spark's. ``start.json`` is written by a reset, and says where the next checkpoint begins.
``state.json`` is what ``status`` shows of the running process.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from moldau.pipeline.books import Books
from moldau.pipeline.spec import Pipeline
from moldau.spark.tables.stores import Store, open_store

CHECKPOINT = "checkpoint"
START = "start.json"
STATE = "state.json"
LOCK = "lock"


class IsRunning(RuntimeError):
    """Another process runs the pipeline; the message names it."""


class BrokenFile(RuntimeError):
    """A file of the folder that holds something else than it should; the message names it."""


@dataclass(frozen=True, slots=True)
class State:
    """What the pipeline's process was doing when it last said so: ``running``, ``paused``, ``failed``, ``stopped``."""

    state: str
    pid: int
    at_ms: int
    message: str = ""


class Folder:
    """One pipeline's folder."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.store: Store = open_store(pipeline.folder)
        self.books = Books(self.store)

    @property
    def checkpoint(self) -> str:
        return f"{self.store.uri}/{CHECKPOINT}"

    def say_if_possible(self, state: str, message: str) -> None:
        """Note why this process ends, unless the folder itself is what cannot be written."""
        with contextlib.suppress(OSError):
            self.say(state, message)

    def has_checkpoint(self) -> bool:
        return bool(self.store.names(f"{CHECKPOINT}/offsets"))

    def start(self) -> str | None:
        """Where a new checkpoint begins, when a reset has said so."""
        found = self.store.read(START)
        try:
            return None if found is None else str(json.loads(found)["start"])
        except (ValueError, TypeError, KeyError):
            raise BrokenFile(
                f"{self.store.uri}/{START} does not say where to begin; reset the pipeline again"
            ) from None

    def begin_at(self, start: str) -> None:
        self.store.write(START, json.dumps({"start": start}).encode())

    def set_checkpoint_aside(self) -> str | None:
        """Rename the checkpoint, so that the next run makes a new one; its new name, None when there was none."""
        if not self.has_checkpoint():
            return None
        name = f"{CHECKPOINT}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"
        self.store.filesystem.move(self.store.at(CHECKPOINT), self.store.at(name))
        return name

    def state(self) -> State | None:
        """What the process said last; ``lost`` when it said that it runs, and is there no more."""
        found = self.store.read(STATE)
        if found is None:
            return None
        try:
            state = State(**json.loads(found))
        except (ValueError, TypeError):
            return State("unknown", 0, 0, f"{self.store.uri}/{STATE} cannot be read; the next run writes it anew")
        if state.state == "running" and self.store.local and not self.is_locked():
            return State("lost", state.pid, state.at_ms, "its process ended without a word; `run` goes on")
        return state

    def say(self, state: str, message: str = "") -> None:
        """Note what this process does."""
        self.store.make_folder()
        content = json.dumps(asdict(State(state, os.getpid(), round(time.time() * 1000), message))).encode()
        self.store.replace(STATE, content)

    def is_locked(self) -> bool:
        """Whether a process of this machine runs the pipeline."""
        try:
            with Path(self.store.at(LOCK)).open() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return False

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the pipeline for this process; IsRunning when another has it. In a store, Spark's checkpoint and the
        tables' ledgers are what keeps two processes apart."""
        if not self.store.local:
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
            file.seek(0)
            file.truncate()
            file.write(str(os.getpid()))
            file.flush()
            yield
