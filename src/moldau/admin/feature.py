"""``moldau feature``: the levels at which the nodes of a cluster work together, and changes of them (KIP-584).

The counterpart of Kafka's kafka-features. A level is a number; releases are named in docs of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from moldau.admin.asking import Talk, refused
from moldau.admin.lazy import Noun
from moldau.admin.main import fail
from moldau.admin.options import DRY_RUN, OUTPUT, SERVERS, YES, confirm, pairs, refuse
from moldau.admin.output import note, say, show

if TYPE_CHECKING:
    from moldau.client.features import Features, Upgrade


@click.group(cls=Noun)
def feature() -> None:
    """Look at the cluster's feature levels; raise and lower them.

    \b
    moldau feature list
    moldau feature upgrade metadata.version --dry-run
    moldau feature downgrade eligible.leader.replicas.version=0 --dry-run
    """


@feature.command("list")
@SERVERS
@OUTPUT
def list_(bootstrap: str, output: str) -> None:
    """List features: the level that the cluster has, and the levels that the broker asked would support."""
    with Talk(bootstrap) as talk:
        found = _features(talk)
    rows = [
        {
            "feature": name,
            "level": found.in_force.get(name, 0),
            "lowest": found.supported.get(name, (None, None))[0],
            "highest": found.supported.get(name, (None, None))[1],
            "epoch": found.epoch,
        }
        for name in sorted({*found.supported, *found.in_force})
    ]
    show(rows, output, ("feature", "level", "lowest", "highest"), ("epoch",))
    if found.epoch < 0:
        note("no levels are finalized: the cluster runs on ZooKeeper, or is older than features")


@feature.command()
@click.argument("wishes", nargs=-1, metavar="FEATURE[=LEVEL]...", required=True)
@DRY_RUN
@YES
@SERVERS
def upgrade(wishes: tuple[str, ...], bootstrap: str, dry_run: bool, yes: bool) -> None:
    """Raise features to a level, or to the highest that is supported. All nodes must support it."""
    from moldau.client.features import Upgrade

    _change(wishes, bootstrap, Upgrade.UPGRADE, dry_run, yes)


@feature.command()
@click.argument("wishes", nargs=-1, metavar="FEATURE=LEVEL...", required=True)
@click.option("--unsafe", is_flag=True, help="Although metadata is lost that the lower level cannot keep.")
@DRY_RUN
@YES
@SERVERS
def downgrade(wishes: tuple[str, ...], bootstrap: str, unsafe: bool, dry_run: bool, yes: bool) -> None:
    """Lower features to a level (0: off)."""
    from moldau.client.features import Upgrade

    if missing := [one for one in wishes if "=" not in one]:
        refuse(f"to which level? {missing[0]}=LEVEL")
    how = Upgrade.UNSAFE_DOWNGRADE if unsafe else Upgrade.SAFE_DOWNGRADE
    _change(wishes, bootstrap, how, dry_run, yes)


def _features(talk: Talk) -> Features:
    from moldau.client.features import describe_features

    return talk.ask(describe_features)


def _change(wishes: tuple[str, ...], bootstrap: str, how: Upgrade, dry_run: bool, yes: bool) -> None:
    from moldau.admin.advice import no_such
    from moldau.client.features import Upgrade, update_features

    given = pairs(tuple(one if "=" in one else f"{one}=highest" for one in wishes), "FEATURE=LEVEL")
    for name, text in given.items():
        if text != "highest" and not (text.isdecimal() and len(text) < 5):
            refuse(f"{name}={text}: a level is a number from 0 to 9999, or 'highest'")
    with Talk(bootstrap) as talk:
        found = _features(talk)
        for name in given:
            if name not in found.supported:
                fail(no_such("feature", name, found.supported, "`moldau feature list` lists them"))
        levels = {name: found.supported[name][1] if text == "highest" else int(text) for name, text in given.items()}
        for name, level in levels.items():
            say(f"{name}: {found.in_force.get(name, 0)} -> {level}")
        if all(found.in_force.get(name, 0) == level for name, level in levels.items()):
            note("nothing would change.")
            return
        for validate_only in (True, False):
            for name, outcome in talk.ask(update_features, levels, how, validate_only=validate_only).items():
                if not outcome.ok:
                    refused(name, outcome.code, outcome.message)
            if validate_only:
                if dry_run:
                    note("nothing was changed.")
                    return
                lower = how is not Upgrade.UPGRADE
                confirm("Lower levels?" if lower else "Raise levels? Older releases cannot join then.", yes)
    note("changed.")
