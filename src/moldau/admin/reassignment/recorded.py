"""The throttles that ``reassign execute`` has set for a plan: recorded beside it until they are taken away."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection
from pathlib import Path

from moldau.admin.asking import Talk, note
from moldau.admin.files import write_whole
from moldau.admin.main import fail
from moldau.admin.reassignment import journal as journals
from moldau.admin.reassignment.journal import BadJournal, Busy, Journal
from moldau.admin.throttles import ThrottlesSet, throttled, unthrottle
from moldau.model import TopicPartition
from moldau.model.counted import counted


def record_of(plan: Path) -> Path:
    """Where it is told what was set for a plan."""
    return plan.with_name(plan.name + ".throttles")


def throttles_of(plan: Path) -> ThrottlesSet:
    """What was set for a plan; nothing when nothing is recorded. Ends the command when the record is damaged."""
    path = record_of(plan)
    try:
        return ThrottlesSet.from_json(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return ThrottlesSet()
    except ValueError as error:
        fail(f"{path}: {error}", 2)
        raise


def save_throttles(plan: Path, made: ThrottlesSet) -> None:
    """Record what is about to be set, or what is left of it; no record is kept of nothing."""
    if made:
        write_whole(record_of(plan), json.dumps(made.as_json(), indent=1) + "\n")
    else:
        record_of(plan).unlink(missing_ok=True)


def is_applied(plan: Path) -> bool:
    """Whether a plan has a journal that tells of throttles, or cannot be read."""
    try:
        journal = journals.load(plan)
    except BadJournal as error:
        note(f"moldau: {error}")
        return True
    return journal is not None and bool(journal.throttles)


def take_away(talk: Talk, plan: Path, partitions: Collection[TopicPartition] = ()) -> None:
    """Take away what was recorded, also what a plan that has ended has left on a broker that was not alive; say which
    of ``partitions`` somebody else throttles.
    """
    save_throttles(plan, unthrottle(talk, throttles_of(plan), plan))
    _take_away_what_is_left(talk, plan)
    others = throttled(talk, partitions) if partitions else []
    if others and is_applied(plan):
        are = counted(len(others), "partition is", "partitions are")
        note(f"{are} throttled by `moldau reassign apply`, which takes that away when it ends")
    elif others:
        are = counted(len(others), "partition is", "partitions are")
        note(f"{are} throttled by somebody else, which stays: {others[0]} ...")


def _take_away_what_is_left(talk: Talk, plan: Path) -> None:
    """What the journal tells of a plan that nobody carries out: who carries it out takes that away himself."""
    with contextlib.suppress(BadJournal, Busy), journals.held(plan):
        journal = journals.load(plan)
        if journal is None or not journal.throttles or journal.cluster != talk.cluster.cluster_id():
            return
        left = unthrottle(talk, journal.throttles, plan)

        def change(one: Journal) -> None:
            one.throttles = left

        journals.update(plan, change)
