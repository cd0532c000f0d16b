"""``moldau doctor``: what is wrong with a cluster, with a node's or a client's file, and what mends it.

Works on any Kafka cluster, and with files alone without one. Exit 0 all is well (notes do not count), 4 something is
wrong, 1 nobody answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from moldau.admin.asking import Talk
from moldau.admin.options import MISMATCH, OUTPUT, SERVERS, WATCH
from moldau.admin.output import TABLES, printable, say, show, watch

if TYPE_CHECKING:
    from moldau.admin.findings import Finding


@click.command()
@click.argument("files", nargs=-1, type=click.Path(dir_okay=False))
@SERVERS
@WATCH
@OUTPUT
@click.pass_context
def doctor(context: click.Context, files: tuple[str, ...], bootstrap: str, every_s: float | None, output: str) -> None:
    """Tell what is wrong with a cluster, or with FILES of nodes and clients; and what mends it.

    Looks at partitions, brokers, controllers, log directories, clocks, throttles and feature levels, and whether every
    broker can be reached from here. Of a node's server.properties: keys, folders, formatting, addresses. Of a client's
    file: what it asks for, and the cluster that it names.

    Exit 4 when something is wrong; notes do not count.

    \b
    moldau doctor
    moldau doctor client.properties
    moldau doctor server.properties -o json
    """
    asked = context.get_parameter_source("bootstrap") is not ParameterSource.DEFAULT

    def show_once() -> bool:
        found: list[Finding] = []
        servers = [bootstrap] if asked or not files else []
        if files:
            from moldau.admin.file_checks import file_checks

            for path in files:
                theirs, named = file_checks(path)
                found += theirs
                servers += [named] if named is not None and not asked else []
        for place in servers:
            found += _of_cluster(place)
        _show(found, output)
        return any(one.severity != "note" for one in found)

    if every_s is not None:
        watch(show_once, every_s)
    raise SystemExit(MISMATCH if show_once() else 0)


def _of_cluster(bootstrap: str) -> list[Finding]:
    with Talk(bootstrap) as talk:
        from moldau.admin.cluster_checks import cluster_checks

        return cluster_checks(talk)


def _show(found: list[Finding], output: str) -> None:
    from moldau.admin.findings import SEVERITIES

    found = sorted(found, key=lambda one: SEVERITIES.index(one.severity))
    if output not in TABLES:
        show([one._asdict() for one in found], output, ("severity", "about", "what", "mend"))
        return
    for one in found:
        say(printable(f"{one.severity:8} {one.about}: {one.what}"))
        say(printable(f"{'':8} -> {one.mend}"))
    counts = [f"{kind}s: {sum(one.severity == kind for one in found)}" for kind in SEVERITIES]
    say(f"{', '.join(counts)}." if found else "all is well.")
