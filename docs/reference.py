"""Makes the reference pages of requests, commands and Python from the code that they describe. Run by `make docs`.

A test holds the pages to the code. What a request or a function does is said in its docstring, what a command does in
its help text: a page is mended there.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path

import click

from moldau.admin.cli import cli
from moldau.broker.api import ON_BROKER, ON_CONTROLLER, ON_ZOOKEEPER
from moldau.broker.network.requests import ServedApi
from moldau.cluster import pytest_plugin
from moldau.spark import kafka_keys, sink_options
from moldau.wire.apis import APIS

DOCS = Path(__file__).parent
API_FILES = DOCS.parent / "src" / "moldau" / "broker" / "api"

REQUESTS_HEAD = """# Requests that are served

Generated from `broker/api` by `make docs`; do not edit. A node advertises these and no others (ApiVersions). Columns are
the versions on a broker's listener and on a controller's listener in KRaft mode, and on a broker's listener in ZooKeeper mode.
*Produce* shows versions from 0 on, as Apache Kafka 4 does (KAFKA-18659), and serves those of the table.
"""

COMMANDS_HEAD = """# Commands

Generated from the commands' own help by `make docs`; do not edit. How answers, exit codes, times and addresses are written:
[cli.md](cli.md). Every command also has `--help`. Kafka's scripts: [tools.md](tools.md).
"""

PYTHON_HEAD = """# Python

Generated from docstrings by `make docs`; do not edit. With examples: [testing.md](testing.md) for clusters and fixtures,
[spark.md](spark.md) for Spark. What is not on this page may change at any time.
"""

CLASSES = (
    ("Clusters", "moldau.Cluster", "moldau.cluster.cluster:Cluster"),
    ("Errors of a cluster", "moldau.cluster.cluster.ClusterError", "moldau.cluster.cluster:ClusterError"),
    ("", "moldau.cluster.cluster.NoLeader", "moldau.cluster.cluster:NoLeader"),
    ("", "moldau.cluster.cluster.NoSuchNode", "moldau.cluster.cluster:NoSuchNode"),
    ("A blocking client", "moldau.client.sync.Cluster", "moldau.client.sync:Cluster"),
    ("Spark", "moldau.spark.session", "moldau.spark.local:session"),
    ("", "moldau.spark.run", "moldau.spark.supervise:run"),
    ("", "moldau.spark.tables.Table", "moldau.spark.tables.table:Table"),
    ("", "moldau.spark.tables.Totals", "moldau.spark.tables.totals:Totals"),
    ("Streams without a broker", "moldau.spark.testing.MemoryCluster", "moldau.spark.testing:MemoryCluster"),
)
"""Section (where one begins), the name that users import, and where it is defined."""
PLAIN = (bool, int, float, str, tuple)
"""Defaults that are shown as they are."""


def requests_page() -> str:
    """Every api key with its versions by listener, and the first words of the file that answers it."""
    rows = ["| key | request | broker | controller | ZooKeeper mode | what it does |", "|---:|---|---|---|---|---|"]
    for key in sorted(ON_BROKER.keys() | ON_CONTROLLER.keys() | ON_ZOOKEEPER.keys()):
        versions = [_versions(table.get(key)) for table in (ON_BROKER, ON_CONTROLLER, ON_ZOOKEEPER)]
        rows.append(f"| {key} | {' | '.join([APIS[key].name, *versions, _said(APIS[key].module)])} |")
    unserved = ", ".join(f"{api.name} ({api.key})" for api in APIS.values() if not _is_served(api.key))
    return f"{REQUESTS_HEAD}\n" + "\n".join(rows) + f"\n\nKnown to the protocol code and not served: {unserved}.\n"


def _is_served(key: int) -> bool:
    return any(key in table for table in (ON_BROKER, ON_CONTROLLER, ON_ZOOKEEPER))


def _versions(served: ServedApi | None) -> str:
    if served is None:
        return ""
    return f"{served.low}-{served.high}" if served.low < served.high else str(served.low)


def _said(module: str) -> str:
    """What a request's file says that it does: its docstring up to the first empty line, without name and versions."""
    text = ast.get_docstring(ast.parse((API_FILES / f"{module}.py").read_text())) or ""
    first = " ".join(text.split("\n\n")[0].split())
    return _cell(re.sub(r"^\w+(, \d+(-\d+)?)?(,? (on|at) [^:]*)?( \(KIP-\d+\))?: ", "", first))


def commands_page() -> str:
    """Every command with its help and its options, in the order of ``moldau --help``."""
    return COMMANDS_HEAD + "".join(_command(path, command) for path, command in _walk(cli, ("moldau",)))


def _walk(group: click.Group, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from _walk(command, (*path, name))


def _command(path: tuple[str, ...], command: click.Command) -> str:
    arguments = [
        each.make_metavar(click.Context(command)) for each in command.params if isinstance(each, click.Argument)
    ]
    options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    depth = "##" if len(path) == 2 else "###"
    head = f"\n{depth} `{' '.join([*path, *arguments])}`\n\n{_help(command.help or '')}\n"
    if not options:
        return head
    rows = "\n".join(f"| {_flags(option)} | {_option_help(option)} |" for option in options)
    return f"{head}\n| option | |\n|---|---|\n{rows}\n"


def _help(text: str) -> str:
    """Paragraphs joined, and what click keeps as it is (after \\\\b) as a block."""
    parts = []
    for part in inspect.cleandoc(text).split("\n\n"):
        if part.startswith("\b\n"):
            parts.append(f"```\n{part[2:]}\n```")
        else:
            parts.append(" ".join(part.split()).replace("|", "\\|").replace("<", "&lt;"))
    return "\n\n".join(parts)


def _flags(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
    if option.is_flag or option.count:
        return names
    kind = option.type
    if isinstance(kind, click.Choice):
        return f"{names} {' or '.join(f'`{choice}`' for choice in kind.choices)}"
    return _cell(f"{names} {option.metavar or kind.name.upper()}")


def _option_help(option: click.Option) -> str:
    told = _cell(option.help or "")
    if option.show_default and isinstance(option.default, (str, int, float)) and not option.is_flag:
        told += f" Default: `{option.default}`."
    return told


def python_page() -> str:
    """What users import, with signatures and docstrings; fixtures; and what Spark's options come to."""
    parts = [PYTHON_HEAD]
    for section, name, where in CLASSES:
        if section:
            parts.append(f"\n## {section}\n")
        module, _, attribute = where.partition(":")
        parts.append(_public(name, getattr(import_module(module), attribute)))
    parts += ["\n## Fixtures of pytest\n\n| fixture | |\n|---|---|\n", *_fixtures()]
    parts.append("\n## Options of Spark that have no effect\n\nOf Kafka's own `kafka.*` keys, reading:\n")
    parts.append(_reasons(kafka_keys.WITHOUT_EFFECT))
    parts.append("\nWriting:\n")
    parts.append(_reasons(sink_options.WITHOUT_EFFECT))
    return "".join(parts)


def _public(name: str, found: type | Callable[..., object]) -> str:
    """A class with its public members in the order of its file, or a function."""
    if not inspect.isclass(found):
        return f"\n### `{name}{_signature(found)}`\n\n{_text(found)}\n"
    made = "" if issubclass(found, Exception) else _signature(found.__init__)
    rows = [f"| {_member(member, value)} | {_cell(_text(value))} |" for member, value in _members(found)]
    table = "\n| member | |\n|---|---|\n" + "\n".join(rows) + "\n" if rows else ""
    return f"\n### `{name}{made}`\n\n{_text(found)}\n{table}"


def _members(found: type) -> Iterator[tuple[str, object]]:
    for member, value in vars(found).items():
        if not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
            yield member, value


def _member(member: str, value: object) -> str:
    return f"`{member}{_signature(value)}`".replace("|", "\\|") if inspect.isfunction(value) else f"`{member}`"


def _signature(function: Callable[..., object]) -> str:
    """Names and defaults of the parameters; what they are is said by the docstring, or by a type checker."""
    empty, shown = inspect.Parameter.empty, []
    for each in inspect.signature(function).parameters.values():
        if each.name != "self":
            default = each.default if each.default in (empty, None) or isinstance(each.default, PLAIN) else ...
            shown.append(each.replace(annotation=empty, default=default))
    return str(inspect.Signature(shown)).replace("Ellipsis", "...")


def _text(found: object) -> str:
    """The docstring: arguments as a list, examples as code."""
    parts = []
    for part in inspect.cleandoc(getattr(found, "__doc__", None) or "").replace("``", "`").split("\n\n"):
        if part.startswith("Args:\n"):
            parts.append(re.sub(r"^    (\w+):", r"- `\1`:", part.removeprefix("Args:\n"), flags=re.M))
        elif part.startswith(">>>"):
            parts.append(f"```pycon\n{part.replace('      # doctest: +SKIP', '')}\n```")
        else:
            parts.append(part)
    return "\n\n".join(parts)


def _fixtures() -> Iterable[str]:
    for name, value in vars(pytest_plugin).items():
        if type(value).__name__ == "FixtureFunctionDefinition":
            yield f"| `{name}` | {_cell(_text(value))} |\n"


def _reasons(table: object) -> str:
    assert isinstance(table, dict)
    rows = "".join(f"| `{name}` | {_cell(str(why))} |\n" for name, why in table.items())
    return f"\n| key | why |\n|---|---|\n{rows}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("``", "`").replace("|", "\\|")


PAGES: dict[Path, Callable[[], str]] = {
    DOCS / "reference-requests.md": requests_page,
    DOCS / "reference-cli.md": commands_page,
    DOCS / "reference-python.md": python_page,
}
"""Each page, and what makes it."""
