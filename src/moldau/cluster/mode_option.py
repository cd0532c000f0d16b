"""The option ``--mode`` of commands that start clusters: KRaft or ZooKeeper mode, in Kafka's words.

``--plane``, the option's older name, and ``quorum``, the older word for KRaft mode, are still taken.
"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

import click

from moldau.cluster.modes import KRAFT, MODES, PLANES, QUORUM, mode_of, plane_of


class ModeType(click.Choice):  # type: ignore[type-arg]  # generic since click 8.2 only
    """A mode, whose value is the ``plane`` of it."""

    def __init__(self) -> None:
        super().__init__(MODES)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # Any: as click's
        return plane_of(super().convert(mode_of(value), param, ctx))


MODE = click.option(
    "--mode", "--plane", "plane", type=ModeType(), default=KRAFT, show_default=True,
    help="KRaft or ZooKeeper mode (`--plane quorum` is an older name of `--mode kraft`).",
)  # fmt: skip


def add_mode(parser: ArgumentParser) -> None:
    """Add the same option to a command that is made with argparse."""
    parser.add_argument(
        "--mode", "--plane", dest="plane", type=plane_of, choices=PLANES, default=QUORUM,
        metavar=f"{{{','.join(MODES)}}}", help=f"KRaft or ZooKeeper mode ({KRAFT})",
    )  # fmt: skip
