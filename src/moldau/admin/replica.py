"""``moldau replica verify``: whether all replicas hold the same, from the brokers or out of their folders.

Exit 0 all is well, 1 a replica is behind, not there, or cannot be reached, 4 a replica diverged.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import click

from moldau.admin.asking import MISMATCH, OUTPUT, SERVERS, Talk, note, show, silent_brokers
from moldau.admin.completing import topics as complete_topics
from moldau.admin.main import fail
from moldau.admin.options import SECONDS
from moldau.admin.output import TABLES
from moldau.admin.progress import ProgressBar
from moldau.admin.rate import RateArgument
from moldau.clusterdata.replica_check.assigned import assigned
from moldau.clusterdata.replica_check.comparing import ReplicaFinding, ReplicaVerdict
from moldau.clusterdata.replica_check.folders import ReadPace, directories, replicas_in
from moldau.clusterdata.replica_check.folders import verify as verify_folders
from moldau.model import TopicPartition
from moldau.model.counted import counted
from moldau.storage.errors import BrokenFile

if TYPE_CHECKING:
    from moldau.admin.replica_check.wire import Silent
    from moldau.client.view import Topic

_COLUMNS = ("partition", "broker", "verdict", "offset", "compared_to", "detail")

LIMITED_SHOWN = 5
"""How many partitions that were not compared to their end are shown by name."""


@click.group()
def replica() -> None:
    """Look whether replicas hold the same.

    \b
    moldau replica verify --topic orders
    moldau replica verify --folders node-1/data node-2/data node-3/data
    """


@replica.command()
@click.argument("paths", nargs=-1)
@SERVERS
@click.option("--folders", is_flag=True, help="Read log directories (PATHS) instead of asking brokers.")
@click.option("--topic", "topics", multiple=True, shell_complete=complete_topics, help="Only this topic; repeat it.")
@click.option("--rate", type=RateArgument(), help="Read no more than this a second: 50MB.")
@click.option(
    "--continuous", is_flag=True, help="Begin again and again, and tell when something changes, until Ctrl-C."
)
@click.option("--interval", type=SECONDS, default=30.0, show_default=True, help="Seconds in between.")
@click.option("--all", "everything", is_flag=True, help="Show replicas that are well, too.")
@OUTPUT
def verify(
    paths: tuple[str, ...],
    bootstrap: str,
    folders: bool,
    topics: tuple[str, ...],
    output: str,
    *,
    rate: float | None,
    continuous: bool,
    interval: float,
    everything: bool,
) -> None:
    """Compare every batch up to the high watermark on every replica: presence, offsets, epoch, length, checksum.

    Verdicts: OK; LAGGING, it ends before the high watermark; MISSING, its broker does not have it; UNREACHABLE;
    DIVERGED, at which offset. Of compacted topics, whose replicas differ by right, only checksums are looked at (from
    brokers), or what none of them has compacted (from folders). COMPARED-TO is the offset before which was compared:
    from folders without the high watermark's checkpoint, where the shortest log ends.
    """
    if bool(paths) != folders:
        fail("--folders needs the log directories of the brokers, and they need --folders", 2)
    told: list[dict[str, object]] | None = None
    while True:
        pace = ReadPace(rate)
        began = time.monotonic()
        with ProgressBar("verify") as progress:
            look = _folders(paths, topics, pace, progress) if folders else _brokers(bootstrap, topics, pace, progress)
            found = list(look)
        rows = [_row(partition, one) for partition, one in found if everything or one.verdict is not ReplicaVerdict.OK]
        if rows != told:
            _tell(rows, found, output, (pace.total, time.monotonic() - began))
            told = rows
        if not continuous:
            break
        time.sleep(interval)
    verdicts = {finding.verdict for _, finding in found}
    if ReplicaVerdict.DIVERGED in verdicts:
        raise SystemExit(MISMATCH)
    raise SystemExit(1 if verdicts - {ReplicaVerdict.OK} else 0)


def _tell(
    rows: list[dict[str, object]],
    found: list[tuple[TopicPartition, ReplicaFinding]],
    output: str,
    cost: tuple[int, float],
) -> None:
    if rows or output not in TABLES:
        show(rows, output, _COLUMNS)
        sys.stdout.flush()
    size, took_s = cost
    well = sum(finding.verdict is ReplicaVerdict.OK for _, finding in found)
    partitions = len({partition for partition, _ in found})
    is_well = "is well as far as it was" if len(found) == 1 else "are well as far as they were"
    note(
        f"{well} of {counted(len(found), 'replica')} of {counted(partitions, 'partition')} {is_well} compared;"
        f" {size / 1e6:,.1f} MB in {took_s:.1f} s"
    )
    limited = {partition: one for partition, one in found if one.verdict is ReplicaVerdict.OK and one.detail}
    for partition, one in sorted(limited.items())[:LIMITED_SHOWN]:
        note(f"{partition}: compared up to offset {one.compared_to}: {one.detail}")
    if len(limited) > LIMITED_SHOWN:
        note(f"and so {counted(len(limited) - LIMITED_SHOWN, 'more partition')}; --all shows all")


def _row(partition: TopicPartition, finding: ReplicaFinding) -> dict[str, object]:
    return {
        "partition": str(partition),
        "broker": finding.replica,
        "verdict": finding.verdict.value,
        "offset": finding.offset,
        "compared_to": finding.compared_to,
        "detail": finding.detail,
    }


Found = Iterator[tuple[TopicPartition, ReplicaFinding]]


def _folders(paths: tuple[str, ...], topics: tuple[str, ...], pace: ReadPace, progress: ProgressBar) -> Found:
    try:
        replicas = replicas_in(directories(paths))
        known = assigned(paths)
    except FileNotFoundError as error:
        fail(f"{error.filename}: {error.strerror}")
        return
    except BrokenFile as error:
        fail(str(error))
        return
    for topic in set(topics) - {partition.topic for partition in replicas}:
        fail(f"no folder holds a partition of {topic}")
    wanted = [partition for partition in sorted(replicas) if not topics or partition.topic in topics]
    brokers = {replica.broker for some in replicas.values() for replica in some}
    alone = sum(len(replicas[partition]) == 1 for partition in wanted if partition not in known)
    if len(brokers) > 1 and alone:
        lie, them = ("lies", "it") if alone == 1 else ("lie", "them")
        note(
            f"{counted(alone, 'partition')} {lie} with one of these {counted(len(brokers), 'broker')} only:"
            f" whether others are to have {them} no folder tells"
        )
    progress.total = len(wanted)
    for done, partition in enumerate(wanted):
        progress.at(done)
        for finding in verify_folders(replicas[partition], pace):
            yield partition, finding
        there = {replica.broker for replica in replicas[partition]}
        for broker in sorted((brokers & set(known.get(partition, ()))) - there):
            yield (
                partition,
                ReplicaFinding(broker, ReplicaVerdict.MISSING, None, "assigned, and not in its directories"),
            )


def _silent(talk: Talk, known: Mapping[str, Topic]) -> Silent:
    """Brokers that have replicas of these topics, and are not alive or do not answer: each of their replicas would be
    waited for."""
    from moldau.admin.replica_check.wire import SILENT_S

    holders = {id for topic in known.values() for part in topic.partitions.values() for id in part.replicas}
    dead = holders - talk.cluster.brokers().keys()
    silent = dict.fromkeys(sorted(dead), "it is not alive") | silent_brokers(talk, holders)
    until_s = time.monotonic() + SILENT_S
    return {id: (until_s, why) for id, why in silent.items()}


def _brokers(bootstrap: str, topics: tuple[str, ...], pace: ReadPace, progress: ProgressBar) -> Found:
    from moldau.admin.replica_check.wire import verify as verify_wire
    from moldau.client.admin import Resource, ResourceType, describe_configs

    with Talk(bootstrap) as talk:
        known = talk.existing(topics) if topics else talk.cluster.topics()
        resources = {Resource(ResourceType.TOPIC, name): name for name in known}
        configs = talk.ask(describe_configs, list(resources), keys=["cleanup.policy"]) if resources else {}
        compacted = {
            resources[one]
            for one, (_, entries) in configs.items()
            if "cleanup.policy" in entries and "compact" in (entries["cleanup.policy"].value or "")
        }
        silent = _silent(talk, known)
        wanted = [
            (TopicPartition(name, number), partition)
            for name, topic in sorted(known.items())
            for number, partition in sorted(topic.partitions.items())
        ]
        progress.total = len(wanted)
        for done, (at, partition) in enumerate(wanted):
            progress.at(done)
            for finding in verify_wire(
                talk.cluster, at, partition, pace, compacted=at.topic in compacted, silent=silent
            ):
                yield at, finding
