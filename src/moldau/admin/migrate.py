"""``moldau migrate``: a cluster that ``moldau up --mode zookeeper`` made moves to KRaft, step by step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from moldau.admin.main import fail
from moldau.admin.options import OUTPUT
from moldau.admin.output import say, show, show_one
from moldau.admin.up import DATA
from moldau.cluster.cluster import Cluster, ClusterError
from moldau.cluster.migration.steps import LEADS, Migration, MigrationPhase, Mode

NEXT = {
    MigrationPhase.ZOOKEEPER: "moldau migrate start",
    MigrationPhase.WAITING: "moldau migrate start (takes up where it stopped), or moldau migrate rollback",
    MigrationPhase.BEHIND: "moldau migrate brokers, then moldau migrate finalise",
    MigrationPhase.BOTH: "moldau migrate brokers, then moldau migrate finalise; or moldau migrate rollback",
    MigrationPhase.FINISHING: "moldau migrate finalise (takes up where it stopped)",
    MigrationPhase.FINISHED: "nothing",
}

data_option = click.option(
    "--data", type=click.Path(path_type=Path), default=DATA, show_default=True, help="Folder of the cluster."
)


@click.group()
def migrate() -> None:
    """Move a running cluster from ZooKeeper to KRaft (KIP-866); back is possible until `finalise`.

    \b
    start     controllers, and every broker takes part: the quorum leads, ZooKeeper is written too
    brokers   every broker restarts in KRaft mode, one at a time
    finalise  the controllers let go of ZooKeeper: no way back
    rollback  back to ZooKeeper, from any step before that
    """


@migrate.command()
@data_option
@click.option("--controllers", default=3, show_default=True, help="How many controllers.")
def start(data: Path, controllers: int) -> None:
    """Start controllers, restart every broker to take part, wait until the quorum leads."""
    _do(data, lambda migration: migration.start(controllers))


@migrate.command()
@data_option
def brokers(data: Path) -> None:
    """Restart every broker in KRaft mode, one at a time."""

    def each(migration: Migration) -> None:
        for broker in migration.brokers:
            migration.cross(broker)

    _do(data, each)


@migrate.command()
@data_option
def finalise(data: Path) -> None:
    """Restart the controllers without ZooKeeper. There is no way back."""
    _do(data, Migration.finalise)


@migrate.command()
@data_option
@click.option("--force", is_flag=True, help="Give up decisions that ZooKeeper does not hold.")
def rollback(data: Path, force: bool) -> None:
    """Go back to ZooKeeper, with everything that was decided meanwhile.

    Refused when ZooKeeper does not hold it all: topics made meanwhile would be gone.
    """
    _do(data, lambda migration: migration.rollback(force=force))


@migrate.command()
@data_option
@OUTPUT
def status(data: Path, output: str) -> None:
    """How far it is, in which mode each broker runs, and what comes next."""
    migration = _found(data)
    try:
        progress = migration.progress()
    except ClusterError as error:
        fail(str(error))
        return
    rows = {broker.id: migration.mode(broker).value for broker in migration.brokers}
    if output == "tsv":
        show([{"broker": id, "mode": mode} for id, mode in rows.items()], output, ("broker", "mode"))
        return
    whole = {"progress": progress.name.lower(), "brokers": rows, "next": next_step(migration, progress)}
    if show_one(whole, output):
        return
    say(progress.value)
    for id, mode in rows.items():
        say(f"broker {id}: {mode}")
    say(f"next: {next_step(migration, progress)}")


def next_step(migration: Migration, progress: MigrationPhase) -> str:
    """What comes next, in words; whoever has crossed already does not cross again."""
    words = NEXT[progress]
    if progress in LEADS and all(migration.mode(broker) is Mode.QUORUM for broker in migration.brokers):
        return words.replace("moldau migrate brokers, then ", "")
    return words


def _found(data: Path) -> Migration:
    if not (data / "cluster.json").exists():
        fail(f"no cluster in {data}: start one with `moldau up --mode zookeeper --data {data}`")
    return Migration(Cluster(data=data.resolve()))


def _do(data: Path, work: Callable[[Migration], None]) -> None:
    migration = _found(data)
    try:
        work(migration)
    except ClusterError as error:
        fail(str(error))
    say(f"next: {next_step(migration, migration.progress())}")
