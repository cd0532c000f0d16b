"""What commands that ask a running cluster share: where it is, how an answer is shown, how a refusal ends.

Any Kafka-compatible cluster will do: only standard requests are sent. Exit codes are those of ``main.py``. Read next: a
noun's file, such as ``reassign.py``.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from moldau.admin.main import fail
from moldau.admin.probe import why_not_kafka
from moldau.client.client import ClientOptions, Unreachable, addresses
from moldau.client.sync import Cluster, Refused
from moldau.client.view import Topic
from moldau.cluster.nodes import HOST, ClusterSpec

T = TypeVar("T")

IN_PROGRESS, MISMATCH = 3, 4
"""Exit codes: not done yet; done, but not as asked."""
PATIENCE_MS = 30_000
"""How long a command asks a cluster that does not answer."""
NOBODY_S = 5.0
"""How long it waits for a cluster of which no broker listens."""

DATA = Path("moldau-data")
"""The folder of a cluster that `moldau up` makes when it is told of none."""


def default_bootstrap() -> str:
    """Brokers to ask when nobody says: those of the cluster in ./moldau-data, or where Kafka is by default."""
    if (DATA / "cluster.json").exists():
        with contextlib.suppress(OSError, ValueError):
            spec = ClusterSpec.load(DATA)
            return ",".join(f"{HOST}:{node.port}" for node in spec.nodes if node.is_broker) or NOWHERE
    return NOWHERE


NOWHERE = "localhost:9092"

SERVERS = click.option(
    "-b",
    "--bootstrap-server",
    "bootstrap",
    envvar="MOLDAU_BOOTSTRAP",
    default=default_bootstrap,
    show_default=f"the cluster in ./{DATA}, or {NOWHERE}",
    help="Brokers to ask, host:port with commas between (or MOLDAU_BOOTSTRAP).",
)
OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "tsv"]),
    default="text",
    show_default=True,
    help="How to print.",
)


class Talk:
    """A conversation with one cluster; ends the command with a word when nobody answers."""

    def __init__(self, bootstrap: str, patience_ms: int | None = None) -> None:
        self.bootstrap = bootstrap
        options = ClientOptions(api_timeout_ms=PATIENCE_MS if patience_ms is None else patience_ms)
        try:
            self.cluster = Cluster(bootstrap, options=options)
        except ValueError as error:
            fail(f"--bootstrap-server {bootstrap}: {error}", 2)
        if (why := _unreached(bootstrap)) is not None:
            fail(f"{bootstrap}: {why}; `moldau up` starts a cluster, --bootstrap-server says where one is")

    def __enter__(self) -> Talk:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.cluster.close()
        if isinstance(error, (Unreachable, Refused, OSError)):
            fail(f"{self.bootstrap}: {error}")

    def topics(self, names: Collection[str]) -> dict[str, Topic]:
        """Those of the named topics that exist; one that was made a moment ago is waited for until brokers know it."""
        client = self.cluster.client
        self.cluster.run(client.know(sorted(names), grace=True))
        return {name: client.view.topics[name] for name in names if name in client.view.topics}

    def ask(self, work: Callable[..., Coroutine[Any, Any, T]], *arguments: Any, **named: Any) -> T:
        """One of ``moldau.client.admin``'s calls."""
        return self.cluster.run(work(self.cluster.client, *arguments, **named))


def _unreached(bootstrap: str) -> str | None:
    """Why none of the servers is a broker that answers; None when one is. Nobody is waited for, in case they start."""
    deadline = time.monotonic() + NOBODY_S
    while True:
        why, absent = "", False
        for host, port in addresses(bootstrap):
            try:
                other = why_not_kafka(host, port)
                if other is None:
                    return None
                why = why or other
            except ConnectionRefusedError:
                why, absent = why or "nobody listens there", True
            except (socket.gaierror, ValueError, OverflowError) as error:  # a label of 64 letters, port 65536
                why, absent = why or f"{host}:{port} is no address: {error.args[-1]}", True
            except OSError as error:
                why = why or f"{host}:{port} cannot be reached: {error.strerror or error}"
        if not absent or time.monotonic() > deadline:
            return why
        time.sleep(0.1)


def show(rows: Sequence[dict[str, Any]], output: str, columns: Iterable[str]) -> None:
    """Rows as a table, as JSON (a list), or with tabs between. Lists in them are joined with commas."""
    names = list(columns)
    if output == "json":
        print(json.dumps(list(rows), indent=2))
        return
    lines = [names, *([_cell(row.get(name)) for name in names] for row in rows)]
    if output == "tsv":
        print("\n".join("\t".join(line) for line in lines))
        return
    widths = [max(len(line[at]) for line in lines) for at in range(len(names))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value)) or "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def note(text: str) -> None:
    """Progress and advice: for people, so not among what a script reads."""
    print(text, file=sys.stderr, flush=True)
