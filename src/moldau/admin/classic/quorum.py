"""kafka-metadata-quorum.sh: the quorum that keeps the metadata, and who votes in it."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path

from moldau.admin.classic.argparse4j import INTEGER, Words, run_tool
from moldau.admin.classic.argparse4j_parsers import Argument, Parser
from moldau.admin.classic.bootstrap import places
from moldau.admin.classic.java import JavaError
from moldau.admin.classic.kafka_errors import kafka_error
from moldau.admin.classic.options import java_integer
from moldau.admin.classic.releases import TerseFailure
from moldau.admin.classic.session import ToolSession, executed, read_config, without_bootstrap
from moldau.admin.classic.uuids import java_uuid
from moldau.broker.config.listeners import EndPoint, parse_listeners
from moldau.client import admin
from moldau.model import NO_UUID, Code
from moldau.model.ids import uuid_text
from moldau.storage.checkpoints import parse_meta
from moldau.wire.messages.k55_describe_quorum import DescribeQuorumResponse

_CONFIG = (
    "Property file containing configs to be passed to Admin Client. For add-controller, the file is used to specify "
    "the controller properties as well."
)
_DRY_RUN = Argument(("--dry-run",), "True if we should print what would be done, but not do it.", takes=None)

PARSER = Parser(
    "kafka-metadata-quorum",
    "This tool describes kraft metadata quorum status.",
    (
        *places("Kafka controllers"),
        Argument(("--command-config",), _CONFIG),
    ),
    (
        Parser(
            "describe",
            arguments=(
                Argument(
                    ("--status",),
                    "A short summary of the quorum status and the other provides detailed information about the "
                    "status of replication.",
                    takes=None,
                    group="Status",
                ),
                Argument(
                    ("--replication",),
                    "Detailed information about the status of replication",
                    takes=None,
                    group="Replication",
                ),
                Argument(("--human-readable",), "Human-readable output", takes=None, group="Replication"),
            ),
            help="Describe the metadata quorum info",
            shows_defaults=False,
        ),
        Parser(
            "add-controller",
            arguments=(_DRY_RUN,),
            help="Add a controller to the KRaft controller cluster",
            shows_defaults=False,
        ),
        Parser(
            "remove-controller",
            arguments=(
                Argument(("--controller-id", "-i"), "The id of the controller to remove.", kind=INTEGER, required=True),
                Argument(
                    ("--controller-directory-id", "-d"),
                    "The directory ID of the controller to remove.",
                    required=True,
                ),
                _DRY_RUN,
            ),
            help="Remove a controller from the KRaft controller cluster",
            shows_defaults=False,
        ),
    ),
    shows_defaults=False,
    required_mutexes=("place",),
)

Replica = DescribeQuorumResponse.ReplicaState


def main(arguments: list[str]) -> int:
    """Run the tool; the exit status."""
    return run_tool(PARSER, arguments, _run)


def _run(words: Words) -> int:
    try:
        _work(words)
    except TerseFailure as error:
        sys.stdout.flush()
        print(error.said, file=sys.stderr)
        return 1
    except JavaError as error:
        sys.stdout.flush()
        sys.stderr.write(f"{error.said}\n{error.trace}\n")
        return 1
    return 0


def _work(words: Words) -> None:
    path = words.value("command-config")
    if path is not None and (not path or not Path(path).exists()):
        raise TerseFailure(f"Properties file {path} does not exists!")
    config = read_config(path)
    places = words.value("bootstrap-server"), words.value("bootstrap-controller")
    with ToolSession(without_bootstrap(config), places[0], controllers=places[1]) as session:
        if words.command == "describe":
            _describe(session, words)
        elif words.command == "add-controller":
            _add(session, config if path is not None else None, words)
        else:
            _remove(session, words)


# -- describe


def _describe(session: ToolSession, words: Words) -> None:
    status, replication = words.has("status"), words.has("replication")
    if status and replication:
        raise TerseFailure("Only one of --status or --replication should be specified with describe sub-command")
    if not status and not replication:
        raise TerseFailure("One of --status or --replication must be specified with describe sub-command")
    if replication:
        _print_replication(_quorum(session), words.has("human-readable"))
        return
    if words.has("human-readable"):
        raise TerseFailure("The option --human-readable is only supported along with --replication")
    _print_status(session)


def _quorum(session: ToolSession) -> DescribeQuorumResponse:
    try:
        found = session.ask("describeMetadataQuorum", admin.ask_quorum)
        parts = [part for topic in found.topics for part in topic.partitions]
        codes = [(found.error_code, found.error_message), *((part.error_code, part.error_message) for part in parts)]
        for code, message in codes:
            if code != Code.NONE:
                raise kafka_error(Code(code), message)
    except JavaError as error:
        raise executed(error) from None
    return found


def _print_replication(found: DescribeQuorumResponse, readable: bool) -> None:
    part = found.topics[0].partitions[0]
    leader = _leader(part)
    roles = [(leader, "Leader")]
    roles += [(one, "Follower") for one in part.current_voters if one is not leader]
    roles += [(one, "Observer") for one in part.observers]
    rows = [("NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status")]
    for one, role in roles:
        id, lag = uuid_text(one.replica_directory_id), leader.log_end_offset - one.log_end_offset
        times = [_time(one.last_fetch_timestamp, "last fetch", readable)]
        times.append(_time(one.last_caught_up_timestamp, "last caught up", readable))
        rows.append((str(one.replica_id), id, str(one.log_end_offset), str(lag), times[0], times[1], role))
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        print("".join(f"{text:{width}}\t" for text, width in zip(row, widths, strict=True)))


def _leader(part: DescribeQuorumResponse.PartitionData) -> Replica:
    for voter in part.current_voters:
        if voter.replica_id == part.leader_id:
            return voter
    raise JavaError("java.util.NoSuchElementException", "No value present")


def _time(stamp_ms: int, what: str, readable: bool) -> str:
    if stamp_ms < 0 or not readable:
        return str(stamp_ms)
    now = int(time.time() * 1000)
    if not 0 < stamp_ms <= now:
        drift = "Error while computing relative time, possible drift in system clock."
        text = f"{drift}\nCurrent timestamp is {now}, {what} timestamp is {stamp_ms}"
        raise JavaError("org.apache.kafka.common.KafkaException", text)
    return f"{now - stamp_ms} ms ago"


def _print_status(session: ToolSession) -> None:
    try:
        cluster = session.ask("listNodes", admin.describe_cluster)
    except JavaError as error:
        raise executed(error) from None
    found = _quorum(session)
    part = found.topics[0].partitions[0]
    leader = _leader(part)
    last = min(part.current_voters, key=lambda voter: voter.log_end_offset)
    behind_ms = -1
    if last is leader:
        behind_ms = 0
    elif leader.last_caught_up_timestamp >= 0 and last.last_caught_up_timestamp >= 0:
        behind_ms = leader.last_caught_up_timestamp - last.last_caught_up_timestamp
    print(f"ClusterId:              {cluster.cluster_id}")
    print(f"LeaderId:               {part.leader_id}")
    print(f"LeaderEpoch:            {part.leader_epoch}")
    print(f"HighWatermark:          {part.high_watermark}")
    print(f"MaxFollowerLag:         {leader.log_end_offset - last.log_end_offset}")
    print(f"MaxFollowerLagTimeMs:   {behind_ms}")
    print(f"CurrentVoters:          {_nodes(found, part.current_voters)}")
    print(f"CurrentObservers:       {_nodes(found, part.observers)}")


def _nodes(found: DescribeQuorumResponse, replicas: list[Replica]) -> str:
    places = {node.node_id: [_place(one.name, one.host, one.port) for one in node.listeners] for node in found.nodes}
    shown = []
    for one in replicas:
        fields = [f'"id": {one.replica_id}']
        if one.replica_directory_id != NO_UUID:
            fields.append(f'"directoryId": "{uuid_text(one.replica_directory_id)}"')
        if places.get(one.replica_id):
            fields.append('"endpoints": [' + ", ".join(f'"{place}"' for place in places[one.replica_id]) + "]")
        shown.append("{" + ", ".join(fields) + "}")
    return f"[{', '.join(shown)}]"


def _place(name: str, host: str, port: int) -> str:
    return f"{name}://[{host}]:{port}" if ":" in host else f"{name}://{host}:{port}"


# -- who votes


def _add(session: ToolSession, config: Mapping[str, str] | None, words: Words) -> None:
    if config is None:
        what = "the configuration file of the controller you are adding when using add-controller."
        raise TerseFailure(f"You must supply {what}")
    id, directory = _controller_id(config), _directory_id(_metadata_folder(config))
    endpoints = _endpoints(config)
    dry = words.has("dry-run")
    if not dry:
        try:
            done = session.ask("addRaftVoter", admin.add_voter, id, directory, endpoints, timeout_ms=60_000)
            if not done.ok:
                raise kafka_error(done.code, done.message)
        except JavaError as error:
            raise executed(error) from None
    places = ", ".join(_place(*one) for one in endpoints)
    what = f"controller {id} with directory id {uuid_text(directory)} and endpoints: {places}"
    print(f"{'DRY RUN of adding' if dry else 'Added'} {what}")


_VALID = "Is this a valid controller configuration file?"


def _controller_id(config: Mapping[str, str]) -> int:
    if "node.id" not in config:
        raise TerseFailure(f"node.id not found in configuration file. {_VALID}")
    try:
        id = java_integer(config["node.id"])
    except ValueError as error:
        raise JavaError("java.lang.NumberFormatException", str(error)) from None
    if id < 0:
        raise TerseFailure(f"node.id was negative in configuration file. {_VALID}")
    if "controller" not in config.get("process.roles", ""):
        raise TerseFailure(f"process.roles did not contain 'controller' in configuration file. {_VALID}")
    return id


def _metadata_folder(config: Mapping[str, str]) -> str:
    for key in ("metadata.log.dir", "log.dirs"):
        if key in config:
            return config[key].strip().split(",")[0] if key != "metadata.log.dir" else config[key]
    names = "Neither metadata.log.dir nor log.dirs were found."
    raise TerseFailure(f"{names} {_VALID}")


def _directory_id(folder: str) -> bytes:
    path = Path(folder, "meta.properties")
    if not path.exists():
        raise TerseFailure(f"Unable to read meta.properties from {folder}")
    found = parse_meta(path.read_bytes(), str(path))
    if found.directory_id is None:
        raise TerseFailure(f"No directory id found in {folder}")
    return found.directory_id


def _endpoints(config: Mapping[str, str]) -> list[tuple[str, str, int]]:
    listeners: dict[str, EndPoint] = {}
    for key in ("listeners", "advertised.listeners"):
        texts = [text for text in config.get(key, "").split(",") if text]
        protocols = {text.partition("://")[0].upper(): "PLAINTEXT" for text in texts}
        listeners |= {one.name: one for one in parse_listeners(key, texts, protocols)}
    if "controller.listener.names" not in config:
        raise TerseFailure(f"controller.listener.names was not found. {_VALID}")
    found = []
    for name in config["controller.listener.names"].split(","):
        if name.upper() not in listeners:
            raise TerseFailure(f"Cannot find information about controller listener name: {name.upper()}")
        one = listeners[name.upper()]
        found.append((one.name, one.host or "localhost", one.port))
    return found


def _remove(session: ToolSession, words: Words) -> None:
    id = words.integer("controller-id")
    if id < 0:
        raise TerseFailure(f"Invalid negative --controller-id: {id}")
    try:
        directory = java_uuid(words.value("controller-directory-id") or "")
    except JavaError as error:
        raise TerseFailure(f"Failed to parse --controller-directory-id: {error.said}") from None
    dry = words.has("dry-run")
    if not dry:
        try:
            done = session.ask("removeRaftVoter", admin.remove_voter, id, directory)
            if not done.ok:
                raise kafka_error(done.code, done.message)
        except JavaError as error:
            raise executed(error) from None
    what = "DRY RUN of removing " if dry else "Removed "
    print(f"{what} KRaft controller {id} with directory id {uuid_text(directory)}")
