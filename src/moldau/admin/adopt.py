"""``moldau adopt``: whether brokers of an Apache Kafka cluster can be replaced by Moldau's, one by one, and by what.

Asks standard requests only, and changes nothing. Exit 0 nothing is in the way (notes do not count), 4 something is,
1 nobody answers. Read next: adopt_checks.py.
"""

from __future__ import annotations

import click

from moldau.admin.asking import Talk
from moldau.admin.options import MISMATCH, OUTPUT, SERVERS
from moldau.admin.output import TABLES, printable, say, show


@click.group()
def adopt() -> None:
    """Replace the nodes of an Apache Kafka cluster by Moldau's, one by one, on the same files and folders.

    `check` tells what would not work. Then each node is stopped and started again as `moldau node server.properties`;
    the way back is to start Kafka on the same folder. `moldau broker roll --command` waits between nodes until all
    replicas are in sync. The whole is in docs/adopt.md.
    """


@adopt.command()
@SERVERS
@OUTPUT
@click.argument("files", nargs=-1, metavar="[SERVER.PROPERTIES]...")
def check(bootstrap: str, output: str, files: tuple[str, ...]) -> None:
    """Tell what of a running cluster would not work, or otherwise, on brokers of Moldau. Changes nothing.

    Looks at feature levels, migrations from ZooKeeper that are not ended, the settings of brokers and topics, listeners
    and security, groups, transactions and sizes; with nodes' files, whether their folders are of this cluster. An error
    stands in the way of every node, a warning in that of those who use what it names.

    \b
    moldau adopt check --bootstrap-server kafka-1:9092
    moldau adopt check --bootstrap-server kafka-1:9092 -o json
    """
    from moldau.admin.adopt_checks import adopt_checks
    from moldau.admin.findings import SEVERITIES

    with Talk(bootstrap) as talk:
        found = sorted(adopt_checks(talk, files), key=lambda one: SEVERITIES.index(one.severity))
    wrong = [one for one in found if one.severity != "note"]
    if output not in TABLES:
        show([one._asdict() for one in found], output, ("severity", "about", "what", "mend"))
    else:
        for one in found:
            say(printable(f"{one.severity:8} {one.about}: {one.what}"))
            say(printable(f"{'':8} -> {one.mend}"))
        say(f"{len(wrong)} in the way, {len(found) - len(wrong)} to know." if wrong else "nothing is in the way.")
    raise SystemExit(MISMATCH if wrong else 0)
