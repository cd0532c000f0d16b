"""Jobs over what a cluster keeps: each is a table that is made from files, by the command line and by Spark alike.

A job is planned into tasks, which share nothing and may run anywhere that the files can be read; the rows of all tasks
are the table. Commands: ``moldau job``. In Spark: ``format("moldau_job")``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from moldau.clusterdata.columns import Column
from moldau.clusterdata.jobs import lag, load, offsets, splits, timeline, verify
from moldau.clusterdata.jobs.wish import Wish
from moldau.model.named import NamedTuple

Row = tuple[object, ...]


class Job(NamedTuple):
    """A job: what it finds, its columns, its tasks, and the rows of a task. ``options`` are those that it heeds."""

    about: str
    columns: tuple[Column, ...]
    options: tuple[str, ...]
    plan: Callable[[Wish], Sequence[object]]
    rows: Callable[..., Iterator[Row]]


JOBS = {
    "timeline": Job(
        "Who led each partition when, and why it changed, from the state-change logs of all nodes.",
        timeline.COLUMNS, ("topics",), timeline.plan, timeline.rows,
    ),
    "splits": Job(
        "Two leaders or controllers in one epoch, epochs that go back, and ISRs that are not among the replicas, from"
        " the state-change logs of all nodes.",
        splits.COLUMNS, ("topics",), splits.plan, splits.rows,
    ),
    "verify": Job(
        "Whether the replicas of each partition hold the same, from the log directories of all brokers.",
        verify.COLUMNS, ("topics",), verify.plan, verify.rows,
    ),
    "load": Job(
        "Bytes and records of each replica over time, from its segments.",
        load.COLUMNS, ("topics", "every"), load.plan, load.rows,
    ),
    "offsets": Job(
        "The newest committed offset of each group and partition, from __consumer_offsets.",
        offsets.OFFSET_COLUMNS, ("groups",), offsets.plan, offsets.offset_rows,
    ),
    "groups": Job(
        "The newest state of each group, from __consumer_offsets.",
        offsets.GROUP_COLUMNS, ("groups",), offsets.plan, offsets.group_rows,
    ),
    "lag": Job(
        "How far each commit was behind the end of its partition when it was made, from __consumer_offsets and the"
        " segments.",
        lag.COLUMNS, ("topics", "groups"), lag.plan, lag.rows,
    ),
}  # fmt: skip


def all_rows(job: Job, wish: Wish) -> Iterator[Row]:
    """The rows of all tasks, one task after the other."""
    for task in job.plan(wish):
        yield from job.rows(task, wish)
