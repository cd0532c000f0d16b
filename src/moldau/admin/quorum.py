"""``moldau quorum``: who leads the metadata log, how far each replica is, and which controllers vote (KIP-853).

The counterpart of Kafka's kafka-metadata-quorum: a controller is added by its own server.properties and formatted
folder, and removed by its id and directory id. Needs kraft.version 1: a cluster formatted with --standalone or
--initial-controllers.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from moldau.admin.asking import CONTROLLER_S, OUTPUT, SERVERS, Talk
from moldau.admin.main import fail, reason
from moldau.admin.options import DRY_RUN, SECONDS, WATCH, YES, confirm
from moldau.admin.output import say, show, show_one, watch

if TYPE_CHECKING:
    from moldau.broker.config.node_config import NodeConfig
    from moldau.client.view import Outcome

REPLICAS = ("replica", "role", "directory_id", "log_end_offset", "lag", "behind_ms")
PATIENCE_MS = 60_000
"""Longer than a controller that joins may take to catch up."""


@click.group()
def quorum() -> None:
    """Look at the controllers' quorum; add and remove controllers.

    \b
    moldau quorum status
    moldau quorum status -o json
    """


def _ask(bootstrap: str, work: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
    with Talk(bootstrap, PATIENCE_MS) as talk:
        return talk.ask(work)


def _end(outcome: Outcome, done: str) -> None:
    from moldau.admin.advice import advised

    if not outcome.ok:
        fail(advised(outcome.code, "the quorum refused", outcome.message))
    say(done)


@quorum.command()
@SERVERS
@WATCH
@OUTPUT
def status(bootstrap: str, every_s: float | None, output: str) -> None:
    """Leader, epoch, and every replica of the metadata log with its directory id and lag."""

    def show_once() -> None:
        found = _status(bootstrap)
        if show_one(found, output):
            return
        if output == "tsv":
            show(found["replicas"], output, REPLICAS)
            return
        say(f"leader {found['leader']}, epoch {found['epoch']}, high watermark {found['high_watermark']}")
        for one in found["replicas"]:
            directory = one["directory_id"] or "-"
            late = one["behind_ms"]
            behind = f", {late} ms behind" if output == "wide" and late is not None else ""
            ends = f"log end {one['log_end_offset']}, lag {one['lag']}{behind}"
            say(f"{one['replica']:>6}  {one['role']:8}  {directory:22}  {ends}")

    watch(show_once, every_s)


def _status(bootstrap: str) -> dict[str, Any]:  # Any: numbers, and rows of them, as JSON shows them
    from moldau.admin.advice import advised
    from moldau.client import admin
    from moldau.client.client import Refused
    from moldau.client.view import Outcome
    from moldau.model import Code, uuid_text

    unled = (Code.REQUEST_TIMED_OUT, Code.NOT_CONTROLLER, Code.NOT_LEADER_OR_FOLLOWER, Code.LEADER_NOT_AVAILABLE)

    with Talk(bootstrap) as talk, talk.apart(int(1000 * CONTROLLER_S)) as brief:
        try:
            outcome, part = brief.ask(admin.describe_quorum)
        except (OSError, Refused):  # a broker that waits for a controller answers nothing else meanwhile
            outcome, part = Outcome(Code.REQUEST_TIMED_OUT), None
        if outcome.code in unled:
            brokers = ", ".join(map(str, sorted(talk.cluster.brokers()))) or "none"
            fail(
                f"no controller is active (none answers within {CONTROLLER_S:g} s); who votes, and how far each is,"
                f" only an active one knows. Brokers that are shown: {brokers}. Start controllers until more than half"
                " of them run"
            )
    if part is None or not outcome.ok:
        fail(advised(outcome.code, "no leader of the quorum answers", outcome.message))
    ends = {one.replica_id: one for one in part.current_voters + part.observers}
    first = ends.get(part.leader_id)
    end = first.log_end_offset if first is not None else 0
    newest = max((one.last_caught_up_timestamp for one in ends.values()), default=-1)
    rows = [
        {
            "replica": one.replica_id,
            "role": "leader" if one.replica_id == part.leader_id else kind,
            # a voter set by hand has no directory id (KIP-853)
            "directory_id": uuid_text(bytes(one.replica_directory_id)) if any(one.replica_directory_id) else None,
            "log_end_offset": one.log_end_offset,
            "lag": end - one.log_end_offset,
            "behind_ms": newest - one.last_caught_up_timestamp if one.last_caught_up_timestamp >= 0 else None,
        }
        for kind, replicas in (("voter", part.current_voters), ("observer", part.observers))
        for one in replicas
    ]
    return {
        "leader": part.leader_id, "epoch": part.leader_epoch, "high_watermark": part.high_watermark, "replicas": rows,
    }  # fmt: skip


@quorum.command("add-controller")
@SERVERS
@click.option(
    "-c", "--config", "path", required=True, help="The controller's server.properties; its folder is formatted."
)
@click.option(
    "--timeout", "timeout_s", type=SECONDS, default=30.0, show_default=True,
    help="Seconds that it may take to catch up.",
)  # fmt: skip
@click.option("--timeout-ms", type=click.IntRange(min=0), help="The same in milliseconds.")
@DRY_RUN
def add_controller(bootstrap: str, path: str, timeout_s: float, timeout_ms: int | None, dry_run: bool) -> None:
    """Let a running controller vote, as soon as it has caught up. Run it where its folder is."""
    from moldau.broker.config.storage_format import FormatRefused, read_meta
    from moldau.client import admin
    from moldau.runtime.disk import RealDisk

    config = _config(path)
    names = config.controller_listener_names
    endpoints = [(one.name, one.host, one.port) for one in config.advertised if one.name in names]
    try:
        directory_id = read_meta(config.metadata_dir, RealDisk()).directory_id
    except FormatRefused as error:
        fail(str(error))
        return
    if directory_id is None:
        fail(f"{config.metadata_dir} has no directory.id: it was formatted before KIP-858")
        return
    if dry_run:
        voters = _voters(bootstrap)
        say(f"controller {config.node_id} would vote beside {', '.join(map(str, voters))}"
              if config.node_id not in voters else f"controller {config.node_id} votes already")  # fmt: skip
        return
    wait_ms = round(timeout_s * 1000) if timeout_ms is None else timeout_ms
    outcome = _ask(
        bootstrap,
        lambda client: admin.add_voter(client, config.node_id, directory_id, endpoints, timeout_ms=wait_ms),
    )
    _end(outcome, f"Controller {config.node_id} votes.")


def _voters(bootstrap: str) -> list[int]:
    return [one["replica"] for one in _status(bootstrap)["replicas"] if one["role"] != "observer"]


def _config(path: str) -> NodeConfig:
    from moldau.broker.config.node_config import load
    from moldau.model.config_key import ConfigError

    try:
        config = load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        fail(reason(error))
        raise
    except (UnicodeDecodeError, ConfigError) as error:
        fail(f"{path}: {error}")
        raise
    if not config.is_controller:
        fail(f"{path}: process.roles does not name a controller")
    return config


@quorum.command("remove-controller")
@SERVERS
@click.option("--controller-id", type=int, required=True, help="Its node.id.")
@click.option("--controller-directory-id", required=True, help="The directory.id in its folder's meta.properties.")
@DRY_RUN
@YES
def remove_controller(
    bootstrap: str, controller_id: int, controller_directory_id: str, dry_run: bool, yes: bool
) -> None:
    """Let a controller vote no more; the active one resigns. It goes on as an observer until it is stopped.

    Needs kraft.version 1; Kafka's kafka-features.sh upgrade --feature kraft.version=1 raises it. `status` shows the
    directory ids of voters then, and "-" for those of before.
    """
    from moldau.client import admin
    from moldau.model import uuid_bytes

    try:
        directory_id = uuid_bytes(controller_directory_id)
    except ValueError as error:
        fail(f"--controller-directory-id {controller_directory_id}: {error}", 2)
        return
    left = ", ".join(str(id) for id in _voters(bootstrap) if id != controller_id) or "none"
    if dry_run:
        say(f"controller {controller_id} would vote no more; left would be {left}")
        return
    confirm(f"Let controller {controller_id} vote no more? Left would be {left}.", yes)
    outcome = _ask(bootstrap, lambda client: admin.remove_voter(client, controller_id, directory_id))
    _end(outcome, f"Controller {controller_id} votes no more.")
