"""kafka-storage.sh: makes a node's folders ready, looks at them, draws an id, and says what releases bring.

What ``format`` writes is what ``moldau storage format`` writes: clusters of metadata.version 4.0-IV3.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from moldau.admin.classic.argparse4j import Words, run_tool
from moldau.admin.classic.argparse4j_parsers import Argument, Parser
from moldau.admin.classic.java import CONFIG_ERROR, JavaError, illegal_argument
from moldau.admin.classic.java_order import hash_order, string_hash
from moldau.admin.classic.releases import (
    FEATURES,
    HIGHEST,
    LATEST,
    METADATA,
    VERSIONS,
    TerseFailure,
    dependencies_parser,
    level_of,
    mapping_parser,
    print_dependencies,
    print_mapping,
    read_level,
    version_of,
)
from moldau.admin.classic.server_keys import demand_startable
from moldau.admin.classic.session import read_config
from moldau.broker.config import storage_format as formatting
from moldau.broker.config.node_config import NodeConfig, load
from moldau.broker.config.storage_format import BOOTSTRAP, METADATA_VERSION, FormatRefused
from moldau.model import uuid_text
from moldau.model.config_key import ConfigError
from moldau.model.properties import decode_properties
from moldau.ports import Disk, Random
from moldau.storage.checkpoints import MetaProperties, parse_meta
from moldau.storage.errors import BrokenFile
from moldau.storage.names import META
from moldau.wire.records.control import VotersRecord

_CONFIG = Argument(("--config", "-c"), "The Kafka configuration file to use.", required=True)
_STATIC = (
    "Used to initialize a {}. When setting this flag, the controller.quorum.voters config {} not be set, and "
    "controller.quorum.bootstrap.servers is set instead."
)
_CONTROLLERS = (
    "Used to initialize a server with the specified dynamic quorum. The argument is a comma-separated list of "
    "id@hostname:port:directory. The same values must be used to format all nodes. For example:\n"
    "0@example.com:8082:JEXY6aqzQY-32P5TStzaFg,\n1@example.com:8083:MvDxzVmcRsaTz33bUuRU6A,\n"
    "2@example.com:8084:07R5amHmR32VDA6jHkGbTA\n. When setting this flag, the controller.quorum.voters config must not "
    "be set, and controller.quorum.bootstrap.servers is set instead."
)
_FORMAT = (
    _CONFIG,
    Argument(("--cluster-id", "-t"), "The cluster ID to use.", required=True),
    Argument(
        ("--add-scram", "-S"),
        "A SCRAM_CREDENTIAL to add to the __cluster_metadata log e.g.\n"
        "'SCRAM-SHA-256=[name=alice,password=alice-secret]'\n"
        '\'SCRAM-SHA-512=[name=alice,iterations=8192,salt="N3E=",saltedpassword="YCE="]\'',
        repeats=True,
    ),
    Argument(
        ("--ignore-formatted", "-g"),
        "When this option is passed, the format command will skip over already formatted directories rather than "
        "failing.",
        takes=None,
    ),
    Argument(
        ("--release-version", "-r"),
        f"The release version to use for the initial feature settings. The minimum is {VERSIONS[0]}; the default is "
        f"{LATEST}",
    ),
    Argument(
        ("--feature", "-f"),
        "The setting to use for a specific feature, in feature=level format. For example: `kraft.version=1`.",
        repeats=True,
    ),
    Argument(
        ("--standalone", "-s"),
        _STATIC.format("controller as a single-node dynamic quorum", "must"),
        takes=None,
        mutex="voters",
    ),
    Argument(
        ("--no-initial-controllers", "-N"),
        _STATIC.format("server without specifying a dynamic quorum", "should"),
        takes=None,
        mutex="voters",
    ),
    Argument(("--initial-controllers", "-I"), _CONTROLLERS, mutex="voters"),
)

PARSER = Parser(
    "kafka-storage",
    "The Kafka storage tool.",
    commands=(
        Parser(
            "info",
            arguments=(_CONFIG,),
            help="Get information about the Kafka log directories on this node.",
            shows_defaults=False,
        ),
        Parser(
            "format",
            arguments=_FORMAT,
            help="Format the Kafka log directories on this node.",
            shows_defaults=False,
        ),
        mapping_parser("-r"),
        dependencies_parser(
            "The features and their versions to look up dependencies for, in feature=version format. For example: "
            "`metadata.version=5`.",
            "-f",
        ),
        Parser("random-uuid", help="Print a random UUID.", shows_defaults=False),
    ),
)


def main(arguments: list[str]) -> int:
    """Run the tool; the exit status."""
    return run_tool(PARSER, arguments, _run)


def _run(words: Words) -> int:
    try:
        return _work(words)
    except TerseFailure as error:
        sys.stdout.flush()
        print(error.said, file=sys.stderr)
        return 1


def _work(words: Words) -> int:
    from moldau.runtime.disk import RealDisk
    from moldau.runtime.world import RealRandom

    if words.command == "version-mapping":
        print_mapping(words)
    elif words.command == "feature-dependencies":
        print_dependencies(words)
    elif words.command == "random-uuid":
        print(uuid_text(RealRandom().uuid()))
    elif words.command == "info":
        return _info(_config(words), RealDisk())
    else:
        _format(words, _config(words), RealDisk(), RealRandom())
    return 0


def _config(words: Words) -> NodeConfig:
    path = words.value("config") or ""
    given = read_config(path)
    demand_startable(given)
    try:
        return load(decode_properties(Path(path).read_bytes()))
    except ConfigError as error:
        raise JavaError(CONFIG_ERROR, str(error)) from None


def _folders(config: NodeConfig) -> list[str]:
    """Sorted; an empty ``metadata.log.dir`` is a folder of its own to Kafka's tool, and to a node of Moldau's none."""
    return sorted({"" if config["metadata.log.dir"] == "" else config.metadata_dir, *config.log_dirs})


# -- info

_LEGACY = (
    "The kafka configuration file appears to be for a cluster in KRaft mode, but the directories are formatted for "
    "legacy mode."
)


def _info(config: NodeConfig, disk: Disk) -> int:
    problems, found, metas = [], [], []
    for folder in _folders(config):
        if folder and not disk.exists(folder):
            problems.append(f"{folder} does not exist")
            continue
        if folder and not os.path.isdir(folder):
            problems.append(f"{folder} is not a directory")
            continue
        found.append(folder)
        if not disk.exists(f"{folder}/{META}"):
            problems.append(f"{folder} is not formatted.")
            continue
        try:
            meta = parse_meta(disk.read(f"{folder}/{META}"), folder)
        except BrokenFile as error:
            problems.append(f"Error loading {folder}/{META}: {error}")
            continue
        metas.append(meta)
        if not meta.version:
            problems.append(_LEGACY)
    if found:
        print("Found log directory:" if len(found) == 1 else "Found log directories:")
        print("".join(f"  {folder}\n" for folder in found))
    if metas:
        print(f"Found metadata: {_shown(metas[0])}\n")
    if problems:
        print("Found problem:" if len(problems) == 1 else "Found problems:")
        print("".join(f"  {problem}\n" for problem in problems))
        return 1
    return 0


def _shown(meta: MetaProperties) -> str:
    directory = "" if meta.directory_id is None else f"directory.id={uuid_text(meta.directory_id)}, "
    name = "node.id" if meta.version else "broker.id"
    return f"{{cluster.id={meta.cluster_id}, {directory}{name}={meta.node_id}, version={meta.version}}}"


# -- format


def _format(words: Words, config: NodeConfig, disk: Disk, random: Random) -> None:
    release = words.value("release-version")
    if release is not None:
        _check_level(METADATA, level_of(release, finished=True))
    voters = _voters(words, config, random)
    _check_features(words, dynamic=voters is not None or words.has("no-initial-controllers"))
    if words.has("add-scram"):
        raise TerseFailure("SCRAM credentials are not served by Moldau yet: leave --add-scram out")
    cluster_id = words.value("cluster-id") or ""
    config = _readable(config, disk)
    taken = _formatted(config, disk, cluster_id)
    if taken and not words.has("ignore-formatted"):
        how = "Use --ignore-formatted to ignore this directory and format the others."
        raise TerseFailure(f"Log directory {taken[0]} is already formatted. {how}")
    fresh = [folder for folder in hash_order(_folders(config), string_hash) if folder not in taken]
    if not fresh:
        print("All of the log directories are already formatted.")
        return
    if "" in fresh:
        where = f"Kafka's tool writes /{META} then, and {BOOTSTRAP} into the folder in which it is called"
        raise TerseFailure(f"metadata.log.dir is empty: name a folder, or leave the key out ({where}).")
    try:
        formatting.format_storage(config, cluster_id, disk, random, voters=voters, ignore_formatted=True)
    except FormatRefused as error:
        raise TerseFailure(str(error)) from None
    except OSError as error:
        raise TerseFailure(f"Error while writing meta.properties file: {error}") from None
    record = f"FeatureLevelRecord(name='metadata.version', featureLevel={METADATA_VERSION}) at version 0"
    source = f"metadataVersionLevel={METADATA_VERSION}, source=format command"
    print(f"Bootstrap metadata: BootstrapMetadata(records=[ApiMessageAndVersion({record})], {source})")
    for folder in fresh:
        print(f"Formatting {_kind(config, folder, voters)} {folder} with {METADATA} {version_of(METADATA_VERSION)}.")


def _check_level(feature: str, level: int) -> None:
    if feature == METADATA and level != METADATA_VERSION:
        ours = version_of(METADATA_VERSION)
        raise TerseFailure(f"Moldau's clusters have {METADATA} {ours}: {version_of(level)} cannot be had")
    if feature not in (METADATA, "kraft.version") and level:
        raise TerseFailure(f"{feature} is not served by Moldau: its level must be 0")


def _check_features(words: Words, *, dynamic: bool) -> None:
    levels: dict[str, int] = {}
    for text in words.values("feature"):
        try:
            name, level = read_level(text)
        except TerseFailure as error:
            raise JavaError("java.lang.RuntimeException", error.said) from None
        levels[name] = level
        if name == METADATA:
            if version_of(level) is None:
                valid = f"Valid feature levels are from {level_of(VERSIONS[0])} to {level_of(VERSIONS[-1])}."
                raise illegal_argument(f"No MetadataVersion with feature level {level}. {valid}")
            if words.has("release-version"):
                raise TerseFailure(f"Use --release-version instead of --feature {METADATA}=X to avoid ambiguity.")
        elif name not in FEATURES:
            known = ", ".join(sorted(FEATURES))
            raise TerseFailure(f"Unsupported feature: {name}. Supported features are: {known}")
        elif not 0 <= level <= HIGHEST[name]:
            raise illegal_argument(f"No feature:{name} with feature level {level}")
        _check_level(name, level)
    asked = levels.get("kraft.version")
    if asked == 0 and dynamic:
        flags = "one of the flags --standalone, --initial-controllers, or --no-initial-controllers is used."
        how = "For dynamic controllers support, try removing the --feature flag for kraft.version."
        raise TerseFailure(f"Cannot set kraft.version to 0 if controller.quorum.voters is empty and {flags} {how}")
    if asked and not dynamic:
        flags = "one of the flags --standalone, --initial-controllers, or --no-initial-controllers is used."
        how = "For dynamic controllers support, try using one of --standalone, --initial-controllers, or "
        raise TerseFailure(
            f"Cannot set kraft.version to {asked} unless controller.quorum.voters is empty and {flags} "
            f"{how}--no-initial-controllers and removing controller.quorum.voters."
        )


def _voters(words: Words, config: NodeConfig, random: Random) -> VotersRecord | None:
    named = words.value("initial-controllers")
    asked = words.has("standalone") or named is not None
    if asked and config.voters:
        how = "If you want to use dynamic quorum, please remove controller.quorum.voters and specify "
        flags = "format the node with --initial-controllers or --standalone."
        instead = "controller.quorum.bootstrap.servers instead."
        raise TerseFailure(f"You cannot specify controller.quorum.voters and {flags} {how}{instead}")
    if words.has("standalone"):
        if not config.is_controller:
            raise TerseFailure("You can only use --standalone on a controller.")
        return formatting.standalone(config, random)
    if named is not None:
        return formatting.initial_controllers(_controllers(named), config)
    if config.is_controller and not config.voters and not words.has("no-initial-controllers"):
        flags = "--standalone, --initial-controllers, or --no-initial-controllers."
        why = "Because controller.quorum.voters is not set on this controller"
        raise TerseFailure(f"{why}, you must specify one of the following: {flags}")
    return None


def _controllers(text: str) -> Sequence[tuple[int, str, int, bytes]]:
    try:
        return formatting.parse_controllers(text)
    except FormatRefused as error:
        for entry in text.split(","):
            if entry.count(":") == 1 and "@" in entry:
                raise illegal_argument("No colon following port could be found.") from None
        raise illegal_argument(str(error)) from None


def _readable(config: NodeConfig, disk: Disk) -> NodeConfig:
    """The same node with those log directories that can be read, the others are told; TerseFailure when none can be, or
    the one for metadata cannot."""
    folders = _folders(config)
    broken = [folder for folder in folders if folder and _is_unreadable(folder, disk)]
    for folder in broken:
        print(f"I/O error trying to read log directory {folder}. Ignoring...")
    if len(broken) == len(folders):
        raise TerseFailure("No available log directories to format.")
    if config.metadata_dir in broken:
        raise TerseFailure(f"{config.metadata_dir} is the directory for metadata, and cannot be left out.")
    if not broken:
        return config
    left = ",".join(folder for folder in config.log_dirs if folder not in broken)
    return NodeConfig({**config.given, "log.dirs": left, "metadata.log.dir": config.metadata_dir})


def _is_unreadable(folder: str, disk: Disk) -> bool:
    """Whether Kafka's tool gives a directory up: it is none, or what is formatted there cannot be read."""
    path = f"{folder}/{META}"
    if any(one.is_file() for one in (Path(folder), *Path(folder).parents)) or Path(path).is_dir():
        return True
    if not disk.exists(path):
        return False
    try:
        parse_meta(disk.read(path), path)
    except BrokenFile:
        return _names_a_version(path)
    return False


def _names_a_version(path: str) -> bool:
    """Whether a meta.properties says of which version it is: one that does not is of the first, which may tell nothing
    else to Kafka."""
    lines = Path(path).read_text(encoding="latin-1").splitlines()
    return any(line.partition("=")[0].strip() == "version" for line in lines)


def _formatted(config: NodeConfig, disk: Disk, cluster_id: str) -> list[str]:
    """The folders that are formatted already; JavaError when they are another cluster's or node's."""
    taken = []
    for folder in _folders(config):
        path = f"{folder}/{META}"
        if not disk.exists(path):
            continue
        try:
            meta = parse_meta(disk.read(path), path)
        except BrokenFile:
            taken.append(folder)
            continue
        why = None
        if meta.cluster_id != cluster_id:
            why = f"Invalid cluster.id in: {path}. Expected {cluster_id}, but read {meta.cluster_id}"
        elif meta.node_id != config.node_id:
            why = (
                f"Stored node id {meta.node_id} doesn't match previous node id {config.node_id} in {path}. If you moved"
                " your data, make sure your configured node id matches. If you intend to create a new node, you should"
                " remove all data in your data directories."
            )
        if why is not None:
            raise JavaError("java.lang.RuntimeException", why)
        taken.append(folder)
    return taken


def _kind(config: NodeConfig, folder: str, voters: VotersRecord | None) -> str:
    if folder != config.metadata_dir:
        return "data directory"
    if voters is None:
        return "metadata directory"
    votes = any(one.voter_id == config.node_id for one in voters.voters)
    return "dynamic metadata voter directory" if votes else "dynamic metadata directory"
