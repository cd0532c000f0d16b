"""``moldau broker``: who is there, what each leads and holds, how it is set.

``list``, ``describe`` and ``configs`` send standard requests only, so that they work on any Kafka cluster; those that
stop and start nodes are in broker.py.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, TypedDict

import click

from moldau.admin.asking import CONTROLLER_S, Talk
from moldau.admin.completing import brokers as complete_brokers
from moldau.admin.each_broker import told_directories
from moldau.admin.lazy import Noun
from moldau.admin.main import fail
from moldau.admin.options import MISMATCH, OUTPUT, SERVERS, WATCH
from moldau.admin.output import note, say, show, watch

if TYPE_CHECKING:
    from moldau.client.view import Partition
    from moldau.wire.messages.k35_describe_log_dirs import DescribeLogDirsResponse

COLUMNS = ("broker", "address", "rack", "state", "controller", "leads", "replicas", "out_of_sync")
DIRECTORIES = ("directory", "state", "replicas", "bytes", "total_bytes", "usable_bytes")
SERVES = "serves"
NODES = "moldau.admin.broker:broker"


class BrokerPartitions(TypedDict):
    """How much a broker leads and holds."""

    leads: int
    replicas: int
    out_of_sync: int


class BrokerRow(BrokerPartitions):
    """A broker in a table."""

    broker: int
    address: str | None
    rack: str | None
    state: str
    controller: bool


class DirectoryRow(TypedDict):
    """One of its log directories in a table."""

    broker: int
    directory: str
    state: str
    replicas: int
    bytes: int
    total_bytes: int | None
    usable_bytes: int | None


@click.group(
    cls=Noun,
    lazy={
        "configs": ("moldau.admin.brokers:configs", "Show the settings of a broker, with sources."),
        "stop": (f"{NODES}.stop", "Stop a broker by controlled shutdown: others lead before it goes."),
        "start": (f"{NODES}.start", "Start a stopped node again, and wait until it serves."),
        "roll": (f"{NODES}.roll", "Stop and start every node in turn."),
    },
)
def broker() -> None:
    """Look at brokers; stop, start and roll them.

    \b
    moldau broker list
    moldau broker describe 1
    moldau broker configs 1 --all
    moldau broker stop 2 --check
    moldau broker roll
    """


@broker.command("list")
@SERVERS
@WATCH
@OUTPUT
def list_(bootstrap: str, every_s: float | None, output: str) -> None:
    """Every broker: where it is, how much it leads and holds, what of it is out of sync.

    A broker that is fenced is registered, and does not serve; one that is gone is known by its replicas alone.
    """

    def show_once() -> None:
        with Talk(bootstrap) as talk:
            rows, whole = _rows(talk)
        show(rows, output, COLUMNS)
        if not whole and every_s is None:
            raise SystemExit(MISMATCH)

    watch(show_once, every_s)


def _rows(talk: Talk) -> tuple[list[BrokerRow], bool]:
    """The brokers, and whether a controller vouches for it: without one a note says so."""
    from moldau.client import admin
    from moldau.client.lines import UnsupportedApi

    parts = [part for topic in talk.cluster.topics().values() for part in topic.partitions.values()]
    view = talk.cluster.client.view
    fenced: Collection[int] = ()
    why = ""
    there = {id: (one.host, one.port, one.rack) for id, one in view.brokers.items()}
    controller: int | None = view.controller_id if view.controller_id is not None else -1
    try:
        shown = talk.ask(admin.describe_cluster, fenced=True)
    except UnsupportedApi:  # older than 2.8
        pass
    else:
        there = {one.broker_id: (one.host, one.port, one.rack) for one in shown.brokers}
        fenced = {one.broker_id for one in shown.brokers if one.is_fenced}
        controller, why = _controller_soon(talk, shown.controller_id)
    whole = controller is not None
    if not whole:
        why = why or f"none answers within {CONTROLLER_S:g} s"
        note(f"no controller is active ({why}): states are as brokers heard them")
    rows: list[BrokerRow] = []
    for id in sorted({*there, *(id for part in parts for id in part.replicas)}):
        host, port, rack = there.get(id, ("", 0, None))
        rows.append(
            {
                "broker": id,
                "address": f"{host}:{port}" if host else None,
                "rack": rack,
                "state": "gone" if id not in there else "fenced" if id in fenced else SERVES,
                "controller": id == controller,
                **_holds(id, parts),
            }
        )
    return rows, whole


def _holds(id: int, parts: Collection[Partition]) -> BrokerPartitions:
    return {
        "leads": sum(part.leader == id for part in parts),
        "replicas": sum(id in part.replicas for part in parts),
        "out_of_sync": sum(id in part.replicas and id not in part.isr for part in parts),
    }


def _controller_soon(talk: Talk, told: int) -> tuple[int | None, str]:
    """``active_controller``; None when it does not answer soon, as when the quorum has no majority, and what brokers
    say of it. On ZooKeeper a broker names itself where nobody is controller."""
    from moldau.admin.topic import moves_under_way
    from moldau.client.sync import Refused

    with talk.apart(int(1000 * CONTROLLER_S)) as other:
        try:
            found = active_controller(other, told)
        except (Refused, OSError):
            return None, ""
    moves, why = moves_under_way(talk)
    return (found if found >= 0 and moves is not None else None), why


def active_controller(talk: Talk, told: int) -> int:
    """The active controller: the quorum's leader, or on ZooKeeper, where there is no quorum, whom the brokers name."""
    from moldau.client import admin
    from moldau.client.lines import UnsupportedApi
    from moldau.client.sync import Refused
    from moldau.model import Code

    try:
        outcome, quorum = talk.ask(admin.describe_quorum)
    except (Refused, UnsupportedApi):
        return told
    return told if quorum is None or outcome.code is not Code.NONE else int(quorum.leader_id)


@broker.command()
@click.argument("ids", nargs=-1, type=int, shell_complete=complete_brokers)
@SERVERS
@OUTPUT
def describe(ids: tuple[int, ...], bootstrap: str, output: str) -> None:
    """Show brokers with their log directories: what is in them, how much room is left. All without IDS."""
    with Talk(bootstrap) as talk:
        found, vouched = _rows(talk)
        rows = _chosen(found, ids)
        serving = [row["broker"] for row in rows if row["state"] == SERVES]
        told = told_directories(talk, serving)
    directories = [row for id in serving if id in told for row in _directories(id, told[id])]
    whole = [{**row, "directories": [d for d in directories if d["broker"] == row["broker"]]} for row in rows]
    if output in ("json", "yaml"):
        show(whole, output, ())
    elif output == "tsv":
        show(directories, output, ("broker", *DIRECTORIES))
    else:
        show(rows, output, COLUMNS)
        say("")
        show(directories, output, ["broker", *DIRECTORIES])
    if not vouched or len(told) < len(serving):
        raise SystemExit(MISMATCH)


def _chosen(rows: list[BrokerRow], ids: Collection[int]) -> list[BrokerRow]:
    known = {row["broker"] for row in rows}
    for id in ids:
        if id not in known:
            fail(f"there is no broker {id}, only {', '.join(map(str, sorted(known)))}")
    return [row for row in rows if not ids or row["broker"] in ids]


def _directories(id: int, told: Collection[DescribeLogDirsResponse.DescribeLogDirsResult]) -> list[DirectoryRow]:
    from moldau.model import Code

    rows: list[DirectoryRow] = []
    for one in told:
        parts = [part for topic in one.topics for part in topic.partitions]
        rows.append(
            {
                "broker": id,
                "directory": one.log_dir,
                "state": "ok" if one.error_code == Code.NONE else Code(one.error_code).name,
                "replicas": len(parts),
                "bytes": sum(part.partition_size for part in parts),
                "total_bytes": one.total_bytes if one.total_bytes >= 0 else None,
                "usable_bytes": one.usable_bytes if one.usable_bytes >= 0 else None,
            }
        )
    return rows


@click.command()
@click.argument("id", type=int, shell_complete=complete_brokers)
@click.argument("keys", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Values that nobody has set, too.")
@SERVERS
@OUTPUT
@click.pass_context
def configs(
    context: click.Context, id: int, keys: tuple[str, ...], bootstrap: str, everything: bool, output: str
) -> None:
    """Show the settings of broker ID, those that somebody has set, or KEYS; as `config describe --broker`."""
    from moldau.admin.config import describe as describe_config

    context.invoke(
        describe_config,
        keys=keys,
        bootstrap=bootstrap,
        output=output,
        everything=everything,
        doc=False,
        topics=(),
        brokers=(id,),
        groups=(),
        all_brokers=False,
    )
