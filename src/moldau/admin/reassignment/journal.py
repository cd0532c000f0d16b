"""The journal beside a plan that is being applied: what was before, what we have set, and what is to become of it.

``plan.json.journal`` is replaced as a whole, so that it is there as it was or as it is, whatever kills its writer. How
far the moves are it does not say: the cluster knows. One process at a time carries a plan out, and holds a lock on the
plan; others change the journal's state, which that one looks at. Read next: ``carrying.py``.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from moldau.admin.files import write_whole
from moldau.admin.plans import BadPlan, Directories, Plan, directories_in, parse, text_of
from moldau.admin.throttles import ThrottlesSet

RUNNING, PAUSED, CANCELLING, ROLLING_BACK = "running", "paused", "cancelling", "rolling back"
DONE, CANCELLED, ROLLED_BACK = "done", "cancelled", "rolled back"
STATES = (RUNNING, PAUSED, CANCELLING, ROLLING_BACK, DONE, CANCELLED, ROLLED_BACK)
ENDED = (DONE, CANCELLED, ROLLED_BACK)
VERSION = 1
ADVICE = (
    "it is the way back, and names the throttles to take away: restore it, or remove it and look at `moldau doctor`"
)


class BadJournal(ValueError):
    """The file is no journal of this plan; the text says why."""


class Busy(Exception):
    """Another process carries the plan out."""


@dataclass
class Journal:
    """What one plan's journal says."""

    cluster: str
    plan: Plan
    before: Plan
    """The replicas of the plan's partitions when it was begun: what a rollback goes back to."""
    before_placed: Directories = field(default_factory=dict)
    """Their log directories, on brokers that have several and told."""
    state: str = RUNNING
    max_moves: int = 10
    max_moves_per_broker: int = 4
    rate: int | None = None
    """Bytes a second that each broker may spend on the moves."""
    throttles: ThrottlesSet = field(default_factory=ThrottlesSet)

    @property
    def goal(self) -> Plan:
        """Where the replicas are to be, as things stand."""
        return self.before if self.is_going_back else self.plan

    @property
    def origin(self) -> Plan:
        """Where they are that have not been moved."""
        return self.plan if self.is_going_back else self.before

    @property
    def is_going_back(self) -> bool:
        """Whether the goal is what was before the plan."""
        return self.state in (ROLLING_BACK, ROLLED_BACK)

    def begin_again(self, now: Plan, placed: Directories) -> None:
        """Take for where a partition was before where it is ``now``, if others have moved it since the plan ended, or
        a replica of it to another directory since the plan was taken back."""
        for partition, replicas in now.items():
            is_back = self.state == ROLLED_BACK and set(replicas) == set(self.before[partition])
            if is_back or set(replicas) not in (set(self.plan[partition]), set(self.before[partition])):
                self.before[partition] = replicas
                kept = {key: path for key, path in self.before_placed.items() if key[0] != partition}
                self.before_placed = kept | {key: path for key, path in placed.items() if key[0] == partition}

    def text(self) -> str:
        """The journal as a file holds it."""
        data = {
            "version": VERSION,
            "cluster": self.cluster,
            "state": self.state,
            "max_moves": self.max_moves,
            "max_moves_per_broker": self.max_moves_per_broker,
            "rate": self.rate,
            "throttles": self.throttles.as_json(),
            "plan": json.loads(text_of(self.plan)),
            "before": json.loads(text_of(self.before, placed=self.before_placed)),
        }
        return json.dumps(data, indent=1) + "\n"

    @staticmethod
    def read(text: str) -> Journal:
        """The journal of a text; BadJournal says what is wrong with it."""
        try:
            data = json.loads(text)
            if data["version"] != VERSION or data["state"] not in STATES:
                raise BadJournal("it is of another version of Moldau")
            rate, before = data["rate"], json.dumps(data["before"])
            return Journal(
                cluster=str(data["cluster"]),
                plan=parse(json.dumps(data["plan"])),
                before=parse(before),
                before_placed=directories_in(before),
                state=data["state"],
                max_moves=int(data["max_moves"]),
                max_moves_per_broker=int(data["max_moves_per_broker"]),
                rate=None if rate is None else int(rate),
                throttles=ThrottlesSet.from_json(data["throttles"]),
            )
        except BadJournal:
            raise
        except (ValueError, KeyError, TypeError, RecursionError, BadPlan) as error:
            raise BadJournal(f"it is no journal: {error}") from error


def journal_of(plan: Path) -> Path:
    """Where a plan's journal is."""
    return plan.with_name(plan.name + ".journal")


def load(plan: Path) -> Journal | None:
    """The journal of a plan, None when it was never begun. BadJournal names the file."""
    path = journal_of(plan)
    try:
        return Journal.read(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadJournal(f"{path}: {error.strerror}; {ADVICE}") from error
    except (BadJournal, UnicodeDecodeError) as error:
        raise BadJournal(f"{path}: {error}; {ADVICE}") from error


def write(plan: Path, journal: Journal) -> None:
    """Make the journal, or make it anew."""
    write_whole(journal_of(plan), journal.text())


def update(plan: Path, change: Callable[[Journal], None]) -> Journal:
    """Change the journal as it is now, while nobody else does; what it says then."""
    folder = os.open(plan.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        journal = load(plan)
        if journal is None:
            raise BadJournal(f"{journal_of(plan)} is gone")
        change(journal)
        write(plan, journal)
        return journal
    finally:
        os.close(folder)


def is_held(plan: Path) -> bool:
    """Whether a process carries the plan out."""
    with plan.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # until the file is closed; others may look as well
        except BlockingIOError:
            return True
    return False


@contextlib.contextmanager
def held(plan: Path) -> Iterator[None]:
    """While the plan is ours to carry out; Busy when another process does. A process that dies holds nothing."""
    with plan.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy from None
        yield
