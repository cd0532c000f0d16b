"""``moldau quorum``: who leads the metadata log, how far each replica is, and which controllers vote (KIP-853).

The counterpart of Kafka's kafka-metadata-quorum: a controller is added by its own server.properties and formatted
folder, and removed by its id and directory id. Needs kraft.version 1: a cluster formatted with --standalone or
--initial-controllers.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import click

from moldau.admin.asking import SERVERS, Talk
from moldau.admin.main import fail, reason
from moldau.broker.config import NodeConfig, load
from moldau.broker.formatting import FormatRefused, read_meta
from moldau.client import admin
from moldau.client.view import Outcome
from moldau.runtime.disk import RealDisk
from moldau.terms import Code, uuid_bytes, uuid_text
from moldau.terms.config_key import ConfigError

PATIENCE_MS = 60_000
"""Longer than a controller that joins may take to catch up."""


@click.group()
def quorum() -> None:
    """Look at the controllers' quorum; add and remove controllers."""


def _ask(bootstrap: str, work: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
    with Talk(bootstrap, PATIENCE_MS) as talk:
        return talk.ask(work)


def _end(outcome: Outcome, done: str) -> None:
    if outcome.code is not Code.NONE:
        fail(f"{outcome.code.name}: {outcome.message or 'the quorum refused'}")
    print(done)


@quorum.command()
@SERVERS
def status(bootstrap: str) -> None:
    """Leader, epoch, and every replica of the metadata log with its directory id and lag."""
    outcome, part = _ask(bootstrap, admin.describe_quorum)
    if part is None or outcome.code is not Code.NONE:
        fail(f"{outcome.code.name}: {outcome.message or 'no leader answers'}")
    print(f"leader {part.leader_id}, epoch {part.leader_epoch}, high watermark {part.high_watermark}")
    ends = {one.replica_id: one.log_end_offset for one in part.current_voters + part.observers}
    for kind, replicas in (("voter", part.current_voters), ("observer", part.observers)):
        for one in replicas:
            role = "leader" if one.replica_id == part.leader_id else kind
            lag = ends.get(part.leader_id, 0) - one.log_end_offset
            directory = bytes(one.replica_directory_id)
            shown = uuid_text(directory) if any(directory) else "-"  # a voter set by hand has none (KIP-853)
            print(f"{one.replica_id:>6}  {role:8}  {shown:22}  log end {one.log_end_offset}, lag {lag}")


@quorum.command("add-controller")
@SERVERS
@click.option(
    "-c", "--config", "path", required=True, help="The controller's server.properties; its folder is formatted."
)
@click.option("--timeout-ms", default=30_000, show_default=True, help="How long it may take to catch up.")
def add_controller(bootstrap: str, path: str, timeout_ms: int) -> None:
    """Let a running controller vote, as soon as it has caught up. Run it where its folder is."""
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
    outcome = _ask(
        bootstrap,
        lambda client: admin.add_voter(client, config.node_id, directory_id, endpoints, timeout_ms=timeout_ms),
    )
    _end(outcome, f"Controller {config.node_id} votes.")


def _config(path: str) -> NodeConfig:
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
def remove_controller(bootstrap: str, controller_id: int, controller_directory_id: str) -> None:
    """Let a controller vote no more; the active one hands over. It goes on as an observer until it is stopped.

    Needs kraft.version 1; Kafka's kafka-features.sh upgrade --feature kraft.version=1 raises it. `status` shows the
    directory ids of voters then, and "-" for those of before.
    """
    try:
        directory_id = uuid_bytes(controller_directory_id)
    except ValueError as error:
        fail(f"--controller-directory-id {controller_directory_id}: {error}", 2)
        return
    outcome = _ask(bootstrap, lambda client: admin.remove_voter(client, controller_id, directory_id))
    _end(outcome, f"Controller {controller_id} votes no more.")
