"""Jobs over what a cluster keeps: each is a table that is made from files, by the command line and by Spark alike.

A job is planned into tasks, which share nothing and may run anywhere that the files can be read; the rows of all tasks
are the table. Commands: ``moldau job``. In Spark: ``format("moldau_job")``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from moldau.clusterdata.columns import Column
from moldau.clusterdata.jobs import hanging, lag, load, offsets, splits, timeline, transactions, verify
from moldau.clusterdata.jobs.options import JobOptions
from moldau.clusterdata.jobs.timeline import Heard
from moldau.model.named import NamedTuple

Row = tuple[object, ...]


class Job(NamedTuple):
    """A job: what it finds, its columns, its tasks, and the rows of a task. ``options`` are those that it takes."""

    about: str
    columns: tuple[Column, ...]
    options: tuple[str, ...]
    plan: Callable[[JobOptions], Sequence[object]]
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
    "transactions": Job(
        "The newest state of each transactional id, from __transaction_state.",
        transactions.COLUMNS, ("transactionalIds",), transactions.plan, transactions.newest_rows,
    ),
    "transaction-history": Job(
        "All states of each transactional id that are still in __transaction_state.",
        transactions.COLUMNS, ("transactionalIds",), transactions.plan, transactions.history_rows,
    ),
    "hanging-transactions": Job(
        "Transactions that partitions have open and that no coordinator knows, from the segments and"
        " __transaction_state.",
        hanging.COLUMNS, ("topics", "maxTransactionTimeout"), hanging.plan, hanging.rows,
    ),
}  # fmt: skip


class JobResult(NamedTuple):
    """The rows of a job, and what it was asked for and could not be told: ``absent`` are topics, groups and
    transactional ids that are nowhere in the files, ``unread_lines`` those of state-change logs that are none of
    theirs, ``damaged`` packed files of which only the beginning could be unpacked, with the reason."""

    rows: list[Row]
    nothing: bool
    absent: tuple[str, ...]
    unread_lines: int
    damaged: Mapping[str, str]


def tell(name: str, options: JobOptions) -> JobResult:
    """All rows of a job, and whether what they are about was there at all."""
    job, heard = JOBS[name], Heard()
    tasks = job.plan(options)
    if name in ("timeline", "splits"):
        rows = [row for task in tasks for row in job.rows(task, options, heard)]
        topics, nothing = heard.topics, heard.entries == 0
    else:
        rows = [row for task in tasks for row in job.rows(task, options)]
        topics, nothing = _topics(tasks), not tasks
    if nothing:
        return JobResult(rows, True, (), heard.unread_lines, heard.damaged)
    named = {row[0] for row in rows}  # of jobs that take names of groups or transactional ids they come first
    absent = [f"topic {one}" for one in options.topics if one not in topics]
    absent += [f"group {one}" for one in options.groups if one not in named]
    absent += [f"transactional id {one}" for one in options.transactional_ids if one not in named]
    return JobResult(rows, nothing, tuple(absent), heard.unread_lines, heard.damaged)


def _topics(tasks: Sequence[object]) -> set[str]:
    """The topics whose replicas are among the files."""
    found: set[str] = set()
    for task in tasks:
        if isinstance(task, verify.ReplicasToVerify):
            found.add(task.partition.topic)
        elif isinstance(task, lag.CommitsToRead):
            found.update(one.topic for one in task.logs)
        elif isinstance(task, hanging.TransactionsToCheck):
            found.add(task.log[0].topic)
        elif isinstance(task, tuple):
            found.update(one.topic for one in task)
    return found


def all_rows(job: Job, options: JobOptions) -> Iterator[Row]:
    """The rows of all tasks, one task after the other."""
    for task in job.plan(options):
        yield from job.rows(task, options)
