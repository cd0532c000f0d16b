"""Groups of commands that are loaded when they are named: `moldau topic list` does not pay for what `create` needs."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click


class Noun(click.Group):
    """A group; ``lazy`` names further commands as (module:attribute, one line of help), in its own order."""

    def __init__(
        self,
        name: str | None = None,
        *,
        lazy: Mapping[str, tuple[str, str]] | None = None,
        **attributes: Any,  # Any: click hands on whatever a decorator was given, and declares it so itself
    ) -> None:
        super().__init__(name, **attributes)
        self.lazy = dict(lazy or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands, those of this file first."""
        return list(dict.fromkeys((*self.commands, *self.lazy)))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, loaded now if need be."""
        entry = self.lazy.get(cmd_name)
        if entry is None:
            return super().get_command(ctx, cmd_name)
        return loaded(entry[0])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first word names; a usage error tells which words are near."""
        if (
            args
            and args[0] not in self.list_commands(ctx)
            and not args[0].startswith("-")
            and not ctx.resilient_parsing
        ):
            raise click.UsageError(f"No such command {args[0]!r}. {self.hint(ctx, args[0])}", ctx)
        return super().resolve_command(ctx, args)

    def hint(self, ctx: click.Context, word: str) -> str:
        """What to try instead of a word that is no command."""
        from difflib import get_close_matches

        near = get_close_matches(word, self.known_words(ctx))
        path = " ".join(("moldau", *ctx.command_path.split()[1:]))
        return f"Did you mean {' or '.join(near)}?" if near else f"`{path} --help` lists all commands."

    def known_words(self, ctx: click.Context) -> list[str]:
        """Words that may stand where a command does."""
        return self.list_commands(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names and lines of all commands, loading none."""
        rows = [
            (name, self.lazy[name][1] if name in self.lazy else self.commands[name].get_short_help_str(90))
            for name in self.list_commands(ctx)
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def loaded(entry: str) -> click.Command:
    """The command that ``module:attribute`` names; ``module:group.command`` is one of a group's."""
    module, _, path = entry.partition(":")
    name, _, within = path.partition(".")
    command: click.Command = getattr(import_module(module), name)
    if not within:
        return command
    assert isinstance(command, click.Group), entry
    return command.commands[within]
