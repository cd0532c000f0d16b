"""Where the rows of a job go: to standard output, or as records to a topic (``--to``).

A record for each row, in the table's order; its value is the row as ``-o json`` prints it. Each is written once,
whatever connections break (KIP-98). Read next: job.py.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Concatenate, ParamSpec

import click
from click.core import ParameterSource

from moldau.admin.asking import Talk, refused
from moldau.admin.completing import topics as complete_topics
from moldau.admin.options import OUTPUT, SERVERS, refuse, wait_until
from moldau.admin.output import note, show
from moldau.admin.produce import flush, interrupted
from moldau.model.counted import counted
from moldau.model.named import NamedTuple

REPLICAS_MAX = 3
MADE_S = 60.0
"""How long a topic that was made is waited for."""

P = ParamSpec("P")
Row = Mapping[str, object]


class Result(NamedTuple):
    """How to print; with a topic the rows are written to it, and printed only if that was asked for as well."""

    output: str
    topic: str | None
    bootstrap: str
    printed: bool

    def tell(self, rows: Sequence[Row], columns: Sequence[str], *, empty: bool = True) -> None:
        """Write the rows, print them, or both; without rows, and with ``empty`` False, a table is left out. They are
        written first: whoever reads what is printed may go away, which ends the command."""
        if self.topic is not None:
            _write(self.bootstrap, self.topic, rows)
        if self.printed and (rows or empty):
            show(rows, self.output, columns)


def with_result(command: Callable[Concatenate[Result, P], None]) -> Callable[..., None]:
    """--output, --to and --bootstrap-server; the command gets ``result`` as its first argument."""

    @OUTPUT
    @click.option(
        "--to", "topic", metavar="TOPIC", shell_complete=complete_topics,
        help="Write the rows here, each as a record of JSON; -o prints them as well.",
    )  # fmt: skip
    @SERVERS
    @wraps(command)
    def taken(*args: P.args, **named: P.kwargs) -> None:
        output, topic, bootstrap = (named.pop(name) for name in ("output", "topic", "bootstrap"))
        sources = click.get_current_context().get_parameter_source
        if topic is None and sources("bootstrap") is ParameterSource.COMMANDLINE:
            refuse("--bootstrap-server is where --to writes: a job reads files alone")
        printed = topic is None or sources("output") is ParameterSource.COMMANDLINE
        command(Result(str(output), None if topic is None else str(topic), str(bootstrap), printed), *args, **named)

    own = [one for name, one in inspect.signature(command).parameters.items() if name != "result"]
    more = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in ("output", "topic", "bootstrap")]
    taken.__signature__ = inspect.Signature([*own, *more])  # type: ignore[attr-defined]  # it takes what options give
    return taken


def _write(bootstrap: str, topic: str, rows: Sequence[Row]) -> None:
    from moldau.client.feeding import FeedOptions, TopicFeed

    with Talk(bootstrap) as talk:
        _ensure(talk, topic)
        feed = TopicFeed(talk.cluster.client, topic, FeedOptions())
        try:
            for row in rows:
                feed.add(None, json.dumps(row).encode())
                if feed.full:
                    flush(talk, feed)
            flush(talk, feed)
        except KeyboardInterrupt:
            left = len(rows) - feed.written - feed.sending
            interrupted(feed, "row", f"{left:,} are" if left else "")
    note(f"{counted(feed.written, 'row was', 'rows were')} written to {topic}.")


def _ensure(talk: Talk, name: str) -> None:
    """Make the topic, if it is not there: one partition, since its records have an order, in three replicas of which
    two must have what is acknowledged, or as many as there are brokers."""
    from moldau.client.admin import NewTopic, create_topics
    from moldau.model import Code

    if name in talk.cluster.topics([name]):
        return
    replicas = max(min(REPLICAS_MAX, len(talk.cluster.brokers())), 1)
    configs = {"min.insync.replicas": str(max(replicas - 1, 1))}
    new = NewTopic(name=name, partitions=1, replication_factor=replicas, configs=configs)
    made = talk.ask(create_topics, [new])[name]
    if made.code not in (Code.NONE, Code.TOPIC_ALREADY_EXISTS):
        refused(f"topic {name} is not made", made.code, made.message)
    wait_until(lambda: name in talk.topics([name]), MADE_S, f"topic {name} is known")
    note(f"topic {name} was made.")
