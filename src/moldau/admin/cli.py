"""The tree of commands. Each noun is a file, loaded only when it is named; this file knows their names and one line
each."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import click

from moldau.admin.classic.registry import SCRIPTS
from moldau.admin.lazy import Noun
from moldau.admin.main import fail

COMMANDS = {
    "up": ("moldau.admin.up:up", "Start a whole cluster on this machine."),
    "down": ("moldau.admin.up:down", "Stop a cluster that `up` started, by controlled shutdown."),
    "status": ("moldau.admin.up:status", "Look at a cluster that `up` started."),
    "node": ("moldau.admin.storage:node", "Run one node, as in production."),
    "storage": ("moldau.admin.storage:storage", "Format a node's folders, or look at them."),
    "quorum": ("moldau.admin.quorum:quorum", "Look at the controllers' quorum; add and remove controllers."),
    "topic": ("moldau.admin.topic:topic", "Look at topics; make, grow and delete them."),
    "config": ("moldau.admin.config:config", "Look at settings of topics, brokers and groups, and change them."),
    "group": ("moldau.admin.group:group", "Look at consumer groups and their lag; set their offsets; delete them."),
    "record": ("moldau.admin.record:record", "Look at single records; delete the records before an offset."),
    "produce": ("moldau.admin.produce:produce", "Write records to a topic, from standard input or a file."),
    "consume": ("moldau.admin.consume:consume", "Read records of topics to their ends."),
    "tail": ("moldau.admin.consume:tail", "Follow the records of topics as they come."),
    "feature": ("moldau.admin.feature:feature", "Look at the cluster's feature levels; raise and lower them."),
    "reassign": ("moldau.admin.reassign:reassign", "Move replicas between brokers."),
    "leader": ("moldau.admin.leader:leader", "Look at leaders, and elect them."),
    "broker": ("moldau.admin.brokers:broker", "Look at brokers; stop, start and roll them."),
    "replica": ("moldau.admin.replica:replica", "Look whether replicas hold the same, byte for byte."),
    "log": ("moldau.admin.log:log", "Merge state-change logs; tell who led a partition when, and why."),
    "job": ("moldau.admin.job:job", "Make tables of what a cluster keeps itself, from the files of its nodes."),
    "publish": ("moldau.admin.publish:publish", "Write nodes' state changes and metrics to topics, as they come."),
    "migrate": ("moldau.admin.migrate:migrate", "Move a cluster from ZooKeeper to KRaft, or back."),
    "spark": ("moldau.admin.spark:spark", "Look at tables that Spark streams fill; say who may go on from where."),
    "install-scripts": (
        "moldau.admin.classic.install:install_scripts",
        "Write kafka-topics.sh and so on to a folder.",
    ),
    "sim": ("moldau.simulator.command:sim", "Run a cluster on simulated time, nets and disks, by a seed."),
    "perf": ("moldau.admin.perf:perf", "Measure writing, reading, and the way from one to the other."),
    "pipeline": ("moldau.admin.pipeline:pipeline", "Run pipelines that a file declares; see where every record went."),
    "doctor": ("moldau.admin.doctor:doctor", "Tell what is wrong with a cluster or a file of it, and what mends it."),
    "adopt": (
        "moldau.admin.adopt:adopt",
        "Replace the nodes of an Apache Kafka cluster, one by one: what would not work.",
    ),
    "completion": ("moldau.admin.completing:completion", "Print the script that completes words in a shell."),
    "demo": ("moldau.admin.demo:demo", "The whole story in three minutes: data, a stream, a killed broker, a report."),
}

SIMULATOR = "moldau.simulator"
"""The package of commands that only the distribution moldau-simulator holds."""


class _Interrupted(BaseException):
    """An interrupt on its way past click, which would print an empty line for it, whatever stderr is."""


@contextlib.contextmanager
def _interrupts_pass() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise _Interrupted from None


class _Tree(Noun):
    """All commands; a word that is none may also be nearly the name of one of Kafka's scripts."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,  # Any: as click has it
    ) -> click.Context:
        with _interrupts_pass():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:  # Any: as click has it
        with _interrupts_pass():
            return super().invoke(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        try:
            return super().get_command(ctx, cmd_name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{error.name}.".startswith(f"{SIMULATOR}."):
                raise
            if not ctx.resilient_parsing:  # otherwise a shell asks which words may follow
                fail(f"`{cmd_name}` needs moldau-simulator, which is not installed: pip install 'moldau[simulator]'")
            return None

    def known_words(self, ctx: click.Context) -> list[str]:
        return [*self.list_commands(ctx), *SCRIPTS]


@click.group(cls=_Tree, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="moldau", prog_name="moldau")
def cli() -> None:
    """Moldau: a Kafka-compatible streaming cluster in Python.

    Start with `moldau up`, then point any Kafka client at the address it prints.

    Exit codes: 0 done; 1 failed; 2 not asked for as it can be, or not confirmed; 3 not done in time, it goes on by
    itself; 4 something is wrong, or not as asked; 130 interrupted.
    """


def run() -> None:
    """Run what the command line asks for, and end the process; KeyboardInterrupt when it was interrupted."""
    try:
        sys.exit(cli.main(prog_name="moldau", standalone_mode=False))
    except _Interrupted:
        if sys.stderr.isatty():  # the terminal has shown ^C
            click.echo(err=True)
        raise KeyboardInterrupt from None
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort as error:
        if isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        fail(
            "nobody answered the question; --yes answers it beforehand, where a command has it",
            2,
        )
