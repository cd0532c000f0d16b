"""``moldau storage``: format a node's folders as Kafka's tool does, look at them, draw an id. And the help of
``node``."""

from __future__ import annotations

from pathlib import Path

import click

from moldau.admin.main import fail
from moldau.admin.output import say
from moldau.broker.config import storage_format as formatting
from moldau.broker.config.node_config import NodeConfig, load
from moldau.model import uuid_text
from moldau.model.config_key import ConfigError
from moldau.model.properties import decode_properties


@click.group()
def storage() -> None:
    """Format a node's folders, or look at them."""


def _config(path: str) -> NodeConfig:
    try:
        return load(decode_properties(Path(path).read_bytes()))
    except OSError as error:
        fail(f"cannot read {path}: {error.strerror}")
    except ConfigError as error:
        fail(f"{path}: {error}")
    raise AssertionError


@storage.command("format")
@click.option("-t", "--cluster-id", required=True, help="The id of the cluster, the same for all its nodes.")
@click.option("-c", "--config", "path", required=True, help="The node's server.properties.")
@click.option("-g", "--ignore-formatted", is_flag=True, help="Leave alone what is formatted already, format the rest.")
@click.option(
    "-s", "--standalone", is_flag=True, help="This controller alone is the first voter (no controller.quorum.voters)."
)
@click.option(
    "-I", "--initial-controllers", metavar="ID@HOST:PORT:DIR,..", help="The first voters, with directory ids."
)
@click.option("-N", "--no-initial-controllers", is_flag=True, help="A node that joins a quorum of others later.")
@click.option("-r", "--release-version", metavar="VERSION", help="Accepted for Kafka's sake; the newest level is used.")
def format_command(
    cluster_id: str,
    path: str,
    ignore_formatted: bool,
    standalone: bool,
    initial_controllers: str | None,
    no_initial_controllers: bool,
    release_version: str | None,
) -> None:
    """Write meta.properties into every folder of a node, and what a new cluster starts from."""
    from moldau.runtime.disk import RealDisk
    from moldau.runtime.world import RealRandom

    config, random = _config(path), RealRandom()
    if sum((standalone, initial_controllers is not None, no_initial_controllers)) > 1:
        fail("only one of --standalone, --initial-controllers, --no-initial-controllers can be given", 2)
    told = standalone or initial_controllers or no_initial_controllers or config.on_zookeeper
    if config.is_controller and not config.voters and not told:
        fail(
            "controller.quorum.voters is not set: one of --standalone, --initial-controllers, --no-initial-controllers"
            " must say who votes first"
        )
    try:
        voters = None
        if standalone:
            voters = formatting.standalone(config, random)
        elif initial_controllers is not None:
            voters = formatting.initial_controllers(formatting.parse_controllers(initial_controllers), config)
        done = formatting.format_storage(
            config, cluster_id, RealDisk(), random, voters=voters, ignore_formatted=ignore_formatted
        )
    except (formatting.FormatRefused, OSError) as error:
        fail(str(error))
        return
    if not done:
        say("All of the log directories are already formatted.")
    for folder in done:
        say(f"Formatting metadata directory {folder} with metadata.version 4.0-IV3.")


@storage.command()
@click.option("-c", "--config", "path", required=True, help="The node's server.properties.")
def info(path: str) -> None:
    """Say how a node's folders are formatted."""
    from moldau.runtime.disk import RealDisk

    text, sound = formatting.describe(_config(path), RealDisk())
    say(text)
    raise SystemExit(0 if sound else 1)


@storage.command("random-uuid")
def random_uuid() -> None:
    """Draw an id for a new cluster."""
    from moldau.runtime.world import RealRandom

    say(uuid_text(RealRandom().uuid()))


@click.command()
@click.argument("properties")
@click.option("--override", multiple=True, metavar="KEY=VALUE", help="A key of the file, set otherwise.")
@click.option(
    "--logs",
    metavar="DIR",
    help="Folder for server.log, controller.log, state-change.log (default: LOG_DIR, or stdout).",
)
def node(properties: str, override: tuple[str, ...], logs: str | None) -> None:
    """Run one node from Kafka's own server.properties, as in production.

    The very file that starts an Apache Kafka 4.3 node starts this one, after
    `moldau storage format -t CLUSTER_ID -c server.properties`. SIGTERM is a controlled shutdown.
    """
    from moldau.admin.node import run_node

    words = [properties, *(f"--override={pair}" for pair in override), *([f"--logs={logs}"] if logs else [])]
    raise SystemExit(run_node(words))
