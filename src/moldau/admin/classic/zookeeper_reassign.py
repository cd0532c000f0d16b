"""kafka-reassign-partitions.sh --zookeeper, as Apache Kafka 2.8.2 has it: the request is a znode for the controller.

It does not see moves that were asked for otherwise, and moves no log directories. Read next: zookeeper_settings.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from moldau.admin.classic.java import JavaError
from moldau.admin.classic.java_json import read_file
from moldau.admin.classic.java_order import string_hash
from moldau.admin.classic.options import GivenOptions, Option
from moldau.admin.classic.reassign_files import Moves, brokers_in, executable, moves_in, text_of, topics_in
from moldau.admin.classic.reassign_options import (
    ABOUT,
    ACTIONS,
    PERMITTED,
    refuse_actions,
    refuse_others,
)
from moldau.admin.classic.reassign_options import OPTIONS as OPTIONS_OF_4_3
from moldau.admin.classic.reassign_partitions import ALREADY, VERIFY_LATER, Terse, failed, partitions_of, run
from moldau.admin.classic.reassign_throttles import (
    DIRECTORY_RATE,
    RATE_SET,
    RATES,
    REPLICAS,
    brokers_of,
    moves_of,
    throttled_replicas,
)
from moldau.admin.classic.run import help_or_version
from moldau.admin.classic.scala_sets import SMALL, scala_set, set_order
from moldau.admin.classic.session import ADMIN_FAILED as TOOLS_FAILED
from moldau.admin.classic.session import ADMIN_OPERATION as TOOLS_OPERATION
from moldau.admin.classic.zookeeper_placing import live_brokers, place_replicas
from moldau.admin.classic.zookeeper_session import ADMIN_FAILED, ADMIN_OPERATION, fitting, in_zookeeper
from moldau.admin.classic.zookeeper_settings import (
    change_settings,
    read_settings,
    refuse_topic_settings,
)
from moldau.model import TopicPartition
from moldau.ports.zookeeper import NodeExists, NoNode, ZooKeeper
from moldau.zookeeper import paths
from moldau.zookeeper.notes import parse_reassignment, reassignment_json
from moldau.zookeeper.znodes import parse_topic

_NEW = ("bootstrap-controller", "disallow-replication-factor-change", "bootstrap-server")
OPTIONS = (
    *(option for option in OPTIONS_OF_4_3 if option.name not in _NEW),
    Option(
        "bootstrap-server",
        "the server(s) to use for bootstrapping. REQUIRED if an absolute path of the log directory is specified for "
        "any replica in the reassignment json file, or if --zookeeper is not given.",
        takes="Server(s) to use for bootstrapping",
    ),
    Option(
        "zookeeper",
        "DEPRECATED: The connection string for the zookeeper connection in the form host:port. Multiple URLS can be "
        "given to allow fail-over.  Please use --bootstrap-server instead.",
        takes="urls",
    ),
)
ONLY_BROKERS = ("additional", "cancel", "command-config", "replica-alter-log-dirs-throttle", "list", "timeout")
NEEDS_BROKERS = "bootstrap-server needs to be provided when replica reassignments are present."


def main(arguments: list[str]) -> int:
    """Run the tool; the exit status."""
    given = GivenOptions(OPTIONS, arguments)
    action = _action_of(given)
    if given.has("bootstrap-server"):
        ignored = "ignoring deprecated --zookeeper option because --bootstrap-server was specified."
        print(f"Warning: {ignored}  The --zookeeper option will be removed in a future version of Kafka.")
        return run(GivenOptions(OPTIONS_OF_4_3, _without_zookeeper(arguments)))
    print("Warning: --zookeeper is deprecated, and will be removed in a future version of Kafka.")
    work = {"verify": _verify, "generate": _generate, "execute": _execute}[action]

    async def act(zk: ZooKeeper) -> None:
        await work(zk, given)

    try:
        in_zookeeper(given.text("zookeeper"), act)
    except Terse as error:
        print(error)
        return 1
    except JavaError as error:
        kind = {TOOLS_FAILED: ADMIN_FAILED, TOOLS_OPERATION: ADMIN_OPERATION}.get(error.kind, error.kind)
        said = error.message and error.message.replace("`Integer`", "`Int`")
        return failed(JavaError(kind, said, error.cause))
    return 0


def _without_zookeeper(arguments: Sequence[str]) -> list[str]:
    kept, skip = [], False
    for word in arguments:
        if not skip and word.lstrip("-").partition("=")[0] != "zookeeper":
            kept.append(word)
        skip = not skip and word in ("--zookeeper", "-zookeeper")
    return kept


def _action_of(given: GivenOptions) -> str:
    help_or_version(given, ABOUT)
    actions = [action for action in ACTIONS if given.has(action)]
    if len(actions) != 1:
        refuse_actions(given)
    (action,) = actions
    refuse_others(given, action, (*PERMITTED[action], *(() if action in ("cancel", "list") else ("zookeeper",))))
    if not given.has("bootstrap-server"):
        for name in ONLY_BROKERS:
            if given.has(name):
                what = f'You must specify --bootstrap-server when using "{given.shown(name)}"'
                raise JavaError("java.lang.RuntimeException", what)
    return action


async def _verify(zk: ZooKeeper, given: GivenOptions) -> None:
    moves = moves_in(read_file(given.text("reassignment-json-file")), old=True)
    if moves.directories:
        raise JavaError(ADMIN_FAILED, NEEDS_BROKERS)
    incomplete = "the results may be incomplete.  Use --bootstrap-server instead for more accurate results."
    print(f"Warning: because you are using the deprecated --zookeeper option, {incomplete}")
    under_way = await _under_way(zk)
    targets = dict(moves.partitions)
    current = await _replicas(zk, (partition.topic for partition in targets))
    print("Status of partition reassignment:")
    for partition in sorted(targets):
        print(_state(partition, current.get(partition, []), targets[partition], partition in under_way))
    if not under_way and not given.has("preserve-throttles"):
        await _clear_throttles(zk, moves)


def _state(partition: TopicPartition, current: Sequence[int], wanted: Sequence[int], moves: bool) -> str:
    if moves:
        return f"Reassignment of partition {partition} is still in progress."
    if current == wanted:
        return f"Reassignment of partition {partition} is complete."
    sets = f"replica set is {_ids(current)} rather than {_ids(wanted)}."
    return f"There is no active reassignment of partition {partition}, but {sets}"


async def _clear_throttles(zk: ZooKeeper, moves: Moves) -> None:
    alive = sorted(paths.broker_ids(await zk.children(paths.BROKER_IDS))[0])
    brokers = _set_of([*alive, *(id for _, replicas in moves.partitions for id in replicas)])
    print(f"Clearing broker-level throttles on broker{'' if len(brokers) == 1 else 's'} {_ids(brokers)}")
    for id in brokers:
        await _remove_settings(zk, f"brokers/{id}", (*RATES, DIRECTORY_RATE))
    topics = list(dict.fromkeys(partition.topic for partition, _ in moves.partitions))
    topics = topics if len(topics) <= SMALL else set_order(topics, string_hash)
    print(f"Clearing topic-level throttles on topic{'' if len(topics) == 1 else 's'} {','.join(topics)}")
    for topic in topics:
        await _remove_settings(zk, f"topics/{topic}", REPLICAS)


async def _remove_settings(zk: ZooKeeper, entity: str, keys: Sequence[str]) -> None:
    settings = await read_settings(zk, entity)
    if any(key in settings for key in keys):
        await change_settings(zk, entity, {key: settings[key] for key in settings if key not in keys})


async def _generate(zk: ZooKeeper, given: GivenOptions) -> None:
    text = read_file(given.text("topics-to-move-json-file"))
    ids = brokers_in(given.text("broker-list"), "{}")
    topics = topics_in(text, "{}")
    current = await _replicas(zk, topics)
    brokers = await live_brokers(zk, racks=not given.has("disable-rack-aware"), among=ids)
    proposed: dict[TopicPartition, list[int]] = {}
    for topic in topics:
        theirs = [current[partition] for partition in sorted(current) if partition.topic == topic]
        placed = place_replicas(brokers, len(theirs), len(theirs[0])) if theirs else []
        proposed.update({TopicPartition(topic, number): replicas for number, replicas in enumerate(placed)})
    print(f"Current partition replica assignment\n{text_of(current)}\n")
    print(f"Proposed partition reassignment configuration\n{text_of(proposed)}")


async def _execute(zk: ZooKeeper, given: GivenOptions) -> None:
    text, rate = read_file(given.text("reassignment-json-file")), given.integer("throttle", 64)
    assert rate is not None, "it has a default"
    moves = moves_in(text, old=True)
    wanted = executable(moves)
    if moves.directories:
        raise JavaError(ADMIN_FAILED, NEEDS_BROKERS)
    current = await _replicas(zk, (partition.topic for partition in wanted))
    order = scala_set(list(wanted), of=list(wanted))[1]
    if missing := [partition for partition in order if partition not in current]:
        what = f"non-existent partitions: List({', '.join(map(str, missing))})"
        raise JavaError(ADMIN_FAILED, f"The proposed assignment contains {what}")
    alive = paths.broker_ids(await zk.children(paths.BROKER_IDS))[0]
    if unknown := [id for partition in order for id in wanted[partition] if id not in alive]:
        what = f"non-existent brokerIDs: {_ids(_set_of(unknown))}"
        raise JavaError(ADMIN_FAILED, f"The proposed assignment contains {what}")
    if await zk.exists(paths.REASSIGN_PARTITIONS) is not None:
        raise Terse(ALREADY)
    data = fitting(reassignment_json({one: wanted[one] for one in order}))
    current = {partition: current[partition] for partition in wanted}
    print(f"Current partition replica assignment\n\n{text_of(current)}\n")
    print("Save this to use as the --reassignment-json-file option during rollback")
    if rate >= 0:
        print(VERIFY_LATER)
        await _throttle(zk, wanted, current, rate)
    try:
        await zk.create(paths.REASSIGN_PARTITIONS, data)
    except NodeExists:
        what = f"KeeperErrorCode = NodeExists for {paths.REASSIGN_PARTITIONS}"
        raise JavaError("org.apache.zookeeper.KeeperException$NodeExistsException", what) from None
    several = "" if len(wanted) == 1 else "s"
    print(f"Successfully started partition reassignment{several} for {partitions_of(wanted)}")


async def _throttle(
    zk: ZooKeeper,
    wanted: Mapping[TopicPartition, Sequence[int]],
    current: Mapping[TopicPartition, Sequence[int]],
    rate: int,
) -> None:
    moves = moves_of({}, wanted, current)
    for topic, texts in throttled_replicas(moves).items():
        settings = {**await read_settings(zk, f"topics/{topic}"), **texts}
        refuse_topic_settings(settings)
        await change_settings(zk, f"topics/{topic}", settings)
    for id in brokers_of(moves):
        settings = await read_settings(zk, f"brokers/{id}")
        await change_settings(zk, f"brokers/{id}", {**settings, **dict.fromkeys(RATES, str(rate))})
    print(RATE_SET.format(rate))


async def _under_way(zk: ZooKeeper) -> Mapping[TopicPartition, Sequence[int]]:
    try:
        return parse_reassignment((await zk.get(paths.REASSIGN_PARTITIONS))[0])
    except NoNode:
        return {}


async def _replicas(zk: ZooKeeper, topics: Iterable[str]) -> dict[TopicPartition, list[int]]:
    """The replicas of all partitions of these topics; those that are not there have none."""
    names = list(dict.fromkeys(topics))
    found = {}
    for name, read in zip(names, await zk.get_many([paths.topic(name) for name in names]), strict=True):
        for number, assigned in ({} if read is None else parse_topic(name, read[0]).partitions).items():
            found[TopicPartition(name, number)] = list(assigned.replicas)
    return found


def _set_of(ids: Iterable[int]) -> list[int]:
    distinct = list(dict.fromkeys(ids))
    return distinct if len(distinct) <= SMALL else set_order(distinct, int)


def _ids(ids: Iterable[int]) -> str:
    return ",".join(map(str, ids))
