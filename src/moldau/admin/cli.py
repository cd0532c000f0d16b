"""The tree of commands. Each noun is a file, loaded only when it is named; this file knows their names and one line
each."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from importlib import import_module

import click

from moldau.admin.classic.registry import SCRIPTS
from moldau.admin.main import fail

COMMANDS = {
    "up": ("moldau.admin.up:up", "Start a whole cluster on this machine."),
    "down": ("moldau.admin.up:down", "Stop a cluster that `up` started, by controlled shutdown."),
    "status": ("moldau.admin.up:status", "Look at a cluster that `up` started."),
    "node": ("moldau.admin.storage:node", "Run one node, as in production."),
    "storage": ("moldau.admin.storage:storage", "Format a node's folders, or look at them."),
    "quorum": ("moldau.admin.quorum:quorum", "Look at the controllers' quorum; add and remove controllers."),
    "reassign": ("moldau.admin.reassign:reassign", "Move replicas between brokers."),
    "leader": ("moldau.admin.leader:leader", "Look at leaders, and elect them."),
    "broker": ("moldau.admin.broker:broker", "Look at brokers; stop, start and roll them."),
    "replica": ("moldau.admin.replica:replica", "Look whether replicas hold the same, byte for byte."),
    "log": ("moldau.admin.log:log", "Merge state-change logs; tell who led a partition when, and why."),
    "migrate": ("moldau.admin.migrate:migrate", "Move a cluster from ZooKeeper to the quorum's plane, or back."),
    "install-scripts": (
        "moldau.admin.classic.install:install_scripts",
        "Write kafka-topics.sh and so on to a folder.",
    ),
    "sim": ("moldau.admin.sim:sim", "Run a cluster on simulated time, nets and disks, by a seed."),
    "demo": ("moldau.admin.demo:demo", "The whole story in three minutes: data, a stream, a killed broker, a report."),
}


class _Lazy(click.Group):
    """A group whose commands are imported when they are used: `moldau status` does not pay for Spark."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module, _, name = entry[0].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            near = get_close_matches(args[0], (*COMMANDS, *SCRIPTS))
            hint = f"Did you mean {' or '.join(near)}?" if near else "`moldau --help` lists all commands."
            raise click.UsageError(f"No such command {args[0]!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="moldau", prog_name="moldau")
def cli() -> None:
    """Moldau: a Kafka-compatible streaming cluster in Python.

    Start with `moldau up`, then point any Kafka client at the address it prints.
    """


def run() -> None:
    """Run what the command line asks for, and end the process; KeyboardInterrupt when it was interrupted."""
    try:
        sys.exit(cli.main(prog_name="moldau", standalone_mode=False))
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
