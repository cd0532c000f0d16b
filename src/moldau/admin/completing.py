"""Completion in the shell: scripts for bash, zsh and fish, and the names of topics, groups and brokers as they are now.

What cannot be asked within a second completes to nothing: a shell that waits is worse than one that does not help.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING

import click

from moldau.admin.options import default_bootstrap

if TYPE_CHECKING:
    from moldau.client.client import Client

PATIENCE_MS = 1_000
SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS), required=False)
def completion(shell: str | None) -> None:
    """Print the script that completes moldau's commands, options, topics, groups and brokers in SHELL.

    \b
    eval "$(moldau completion bash)"                                   # in ~/.bashrc; zsh the same in ~/.zshrc
    moldau completion fish > ~/.config/fish/completions/moldau.fish
    """
    from click.shell_completion import get_completion_class

    from moldau.admin.cli import cli
    from moldau.admin.options import refuse

    name = shell or os.path.basename(os.environ.get("SHELL", ""))
    kind = get_completion_class(name) if name in SHELLS else None
    if kind is None:
        refuse(f"for which shell? One of {', '.join(SHELLS)}")
    print(kind(cli, {}, "moldau", "_MOLDAU_COMPLETE").source())


def topics(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Topics whose names begin so; before a colon or a dash, where a partition follows, too."""
    return _begin(incomplete, _asked(context, _topics))


def groups(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Groups whose names begin so."""
    return _begin(incomplete, _asked(context, _groups))


def brokers(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Numbers of brokers that begin so."""
    return _begin(incomplete, _asked(context, _brokers))


def broker_lists(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Numbers of brokers with commas between, as --brokers takes them, of which the last begins so; none twice."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{id}" for id in brokers(context, parameter, last) if id not in before.split(",")]


def topic_keys(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Settings of topics that begin so, with the sign that follows."""
    from moldau.model.topic_config import TOPIC_KEYS

    return _begin(incomplete, (f"{key}=" for key in TOPIC_KEYS))


def _begin(incomplete: str, names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete) and name.isprintable())


def _asked(context: click.Context, work: Callable[[Client], Coroutine[object, None, list[str]]]) -> list[str]:
    """What the cluster says that the command line names so far; nothing when it does not answer."""
    from moldau.client.client import ClientOptions
    from moldau.client.lines import ConnectionOptions
    from moldau.client.sync import Cluster

    given = context.params.get("bootstrap")
    bootstrap = given if isinstance(given, str) else os.environ.get("MOLDAU_BOOTSTRAP") or default_bootstrap()
    connection = ConnectionOptions(connect_timeout_ms=PATIENCE_MS, request_timeout_ms=PATIENCE_MS)
    options = ClientOptions(api_timeout_ms=PATIENCE_MS)
    with (
        contextlib.suppress(Exception),
        contextlib.redirect_stderr(io.StringIO()),  # a shell asks: nobody reads why not
        Cluster(bootstrap, connection=connection, options=options) as cluster,
    ):
        return cluster.run(work(cluster.client))
    return []


async def _topics(client: Client) -> list[str]:
    await client.refresh(None)
    return list(client.view.topics)


async def _brokers(client: Client) -> list[str]:
    await client.refresh([])
    return [str(id) for id in client.view.brokers]


async def _groups(client: Client) -> list[str]:
    from moldau.client.groups import list_groups

    return [one.group_id for one in await list_groups(client)]
