"""kafka-features.sh: the features of a cluster, their levels, and what a release brings."""

from __future__ import annotations

import sys

from moldau.admin.classic.argparse4j import INTEGER, HelpShown, Rejected, Words, read_words
from moldau.admin.classic.argparse4j_parsers import Argument, Parser
from moldau.admin.classic.bootstrap import places
from moldau.admin.classic.java import JavaError
from moldau.admin.classic.java_order import hash_order, string_hash
from moldau.admin.classic.kafka_errors import kafka_error
from moldau.admin.classic.releases import (
    FEATURES,
    METADATA,
    TerseFailure,
    default_level,
    dependencies_parser,
    level_of,
    mapping_parser,
    print_dependencies,
    print_mapping,
    read_level,
    version_of,
)
from moldau.admin.classic.session import ToolSession, executed, read_config, without_bootstrap
from moldau.client.features import Upgrade, describe_features, update_features

_RELEASE = (
    "The release version to {}grade all features to. For example, 3.9-IV0 will set metadata.version=21 and "
    "kraft.version=1. Use the version-mapping command to learn which features will be set for any given version."
)
_RELEASES = {"up": _RELEASE.format("up").replace("upgrade all", "update all"), "down": _RELEASE.format("down")}
_METADATA = "DEPRECATED -- The level to which we should {}grade the metadata. For example, 3.3-IV{}."
_LEVEL = "A feature {}grade we should perform, in feature=level format. For example: `metadata.version=5`."


def _change(way: str, example: int, *others: Argument) -> Parser:
    return Parser(
        f"{way}grade",
        arguments=(
            Argument(("--metadata",), _METADATA.format(way, example)),
            Argument(("--release-version",), _RELEASES[way]),
            Argument(("--feature",), _LEVEL.format(way), repeats=True),
            *others,
            Argument(("--dry-run",), f"Validate this {way}grade, but do not perform it.", takes=None),
        ),
        help=f"{way.capitalize()}grade one or more feature flags.",
        shows_defaults=False,
    )


def _unsafe(text: str) -> Argument:
    return Argument(("--unsafe",), f"{text} even if it may irreversibly destroy metadata.", takes=None)


PARSER = Parser(
    "kafka-features",
    "This tool manages feature flags in Kafka.",
    (
        *places("KRaft quorum"),
        Argument(("--command-config",), "Property file containing configs to be passed to Admin Client."),
    ),
    (
        Parser(
            "describe",
            arguments=(
                Argument(
                    ("--node-id",),
                    "The node id to which the requests should be sent. If not specified, the requests will be sent to "
                    "an arbitrary controller/broker.",
                    kind=INTEGER,
                ),
            ),
            help="Describes the current active feature flags.",
            shows_defaults=False,
        ),
        _change("up", 3),
        _change("down", 0, _unsafe("Perform this downgrade")),
        Parser(
            "disable",
            arguments=(
                Argument(("--feature",), "A feature flag to disable.", repeats=True),
                _unsafe("Disable this feature flag"),
                Argument(("--dry-run",), "Perform a dry-run of this disable operation.", takes=None),
            ),
            help="Disable one or more feature flags. This is the same as downgrading the version to zero.",
            shows_defaults=False,
        ),
        mapping_parser(),
        dependencies_parser(
            "The feature and version to look up dependencies for, in feature=version format. For example: "
            "`metadata.version=5`."
        ),
    ),
)


def main(arguments: list[str]) -> int:
    """Run the tool; the exit status."""
    try:
        words = read_words(PARSER, arguments)
        _run(words)
    except HelpShown as shown:
        sys.stdout.write(str(shown))
        return 0
    except Rejected as error:
        return _wrong(error.message)
    except JavaError as error:
        sys.stdout.flush()
        print(error.said, file=sys.stderr)
        return 1
    return 0


def _wrong(message: str) -> int:
    sys.stderr.write(f"Command line error: {message}. Type --help for help.")
    return 1


def _run(words: Words) -> None:
    if words.command == "version-mapping":
        print_mapping(words)
        return
    if words.command == "feature-dependencies":
        print_dependencies(words)
        return
    if not words.has("bootstrap-server") and not words.has("bootstrap-controller"):
        raise Rejected("", "You must specify either --bootstrap-controller or --bootstrap-server.")
    places = words.value("bootstrap-server"), words.value("bootstrap-controller")
    config = without_bootstrap(read_config(words.value("command-config")))
    with ToolSession(config, places[0], controllers=places[1]) as session:
        if words.command == "describe":
            _describe(session, words)
        elif words.command == "disable":
            _disable(session, words)
        else:
            _grade(session, words)


def _describe(session: ToolSession, words: Words) -> None:
    node = words.integer("node-id") if words.has("node-id") else None
    if node is not None and node < 0:
        raise TerseFailure(f"Invalid node id {node}: must be non-negative.")
    try:
        found = session.ask("describeFeatures", describe_features, node)
    except JavaError as error:
        raise executed(error) from None
    for name in sorted(found.supported):
        low, high = found.supported[name]
        levels = [_level(name, level) for level in (low, high, found.in_force.get(name, 0))]
        epoch = found.epoch if found.epoch >= 0 else "-"
        low_text, high_text = f"SupportedMinVersion: {levels[0]}", f"SupportedMaxVersion: {levels[1]}"
        in_force = f"FinalizedVersionLevel: {levels[2]}"
        print(f"{f'Feature: {name}':50} {low_text:36}  {high_text:36}  {in_force:39} Epoch: {epoch}")


def _level(feature: str, level: int) -> str:
    if feature != METADATA:
        return str(level)
    return version_of(level) or f"UNKNOWN [{level}]"


def _disable(session: ToolSession, words: Words) -> None:
    levels: dict[str, int] = {}
    for name in words.values("feature"):
        _set(levels, name, 0)
    _update(session, words, levels, _downgrade(words))


def _downgrade(words: Words) -> Upgrade:
    return Upgrade.UNSAFE_DOWNGRADE if words.has("unsafe") else Upgrade.SAFE_DOWNGRADE


def _grade(session: ToolSession, words: Words) -> None:
    """Put features up or down."""
    upgrade = Upgrade.UPGRADE if words.command == "upgrade" else _downgrade(words)
    release, metadata, features = words.value("release-version"), words.value("metadata"), words.values("feature")
    if release is not None and (metadata is not None or features):
        raise TerseFailure("Can not specify `release-version` with other feature flags.")
    levels: dict[str, int] = {}
    if release is not None:
        levels[METADATA] = level_of(release)
        for name in FEATURES:
            level = default_level(name, levels[METADATA])
            if level or upgrade is not Upgrade.UPGRADE:
                levels[name] = level
    if metadata is not None:
        print(" `metadata` flag is deprecated and may be removed in a future release.")
        levels[METADATA] = level_of(metadata)
    for text in features:
        name, level = read_level(text)
        if level < 0:
            raise TerseFailure("Cannot specify a negative version level.")
        if level < 1 and upgrade is Upgrade.UPGRADE:
            why = f"when the provided maxVersionLevel:{level} is < 1."
            raise TerseFailure(f"The upgradeType flag should be set to SAFE_DOWNGRADE or UNSAFE_DOWNGRADE {why}")
        _set(levels, name, level)
    _update(session, words, levels, upgrade)


def _set(levels: dict[str, int], name: str, level: int) -> None:
    if name in levels:
        raise TerseFailure(f"Feature {name} was specified more than once.")
    levels[name] = level


def _update(session: ToolSession, words: Words, levels: dict[str, int], upgrade: Upgrade) -> None:
    if not levels:
        raise TerseFailure(f"You must specify at least one feature to {words.command}")
    if "" in levels:
        raise TerseFailure("Provided feature can not be empty.")
    dry = words.has("dry-run")
    ordered = {name: levels[name] for name in hash_order(levels, string_hash)}
    failed: dict[str, str] = {}
    try:
        done = session.ask("updateFeatures", update_features, ordered, upgrade, validate_only=dry)
        failed = {name: kafka_error(one.code, one.message).said for name, one in done.items() if not one.ok}
    except JavaError as error:
        failed = dict.fromkeys(levels, error.said)
    disable = words.command == "disable"
    for name in sorted(levels):
        if name in failed:
            what = f"disable {name}" if disable else f"{words.command} {name} to {levels[name]}"
            print(f"{'Can not' if dry else 'Could not'} {what}. {failed[name]}")
        else:
            what = "disabled." if disable else f"{words.command}d to {levels[name]}."
            print(f"{name} {'can be' if dry else 'was'} {what}")
    if failed:
        raise TerseFailure(f"{len(failed)} out of {len(levels)} operation(s) failed.")
