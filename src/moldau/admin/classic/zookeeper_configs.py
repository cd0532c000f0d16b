"""kafka-configs.sh --zookeeper, as Apache Kafka 2.8.2 has it: settings in znodes, of which a note tells the brokers.

Read next: zookeeper_entities.py (whose settings), zookeeper_settings.py (how they are written).
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import new, pbkdf2_hmac
from hmac import digest
from os import urandom

from moldau.admin.classic.configs import INVALID, pairs_of, refused
from moldau.admin.classic.java import CONFIG_ERROR, JavaError, illegal_argument
from moldau.admin.classic.java_order import string_hash
from moldau.admin.classic.kafka_errors import PACKAGE
from moldau.admin.classic.options import GivenOptions, java_integer
from moldau.admin.classic.run import help_or_version
from moldau.admin.classic.scala_sets import shown_set, table_order
from moldau.admin.classic.session import read_config
from moldau.admin.classic.zookeeper_configs_options import BROKER_KEYS, OPTIONS, SCRAM
from moldau.admin.classic.zookeeper_entities import Entity, check, entities_below, entity_in
from moldau.admin.classic.zookeeper_session import in_zookeeper
from moldau.admin.classic.zookeeper_settings import (
    change_settings,
    read_settings,
    read_topic,
    refuse_topic_settings,
    refuse_values,
)
from moldau.admin.classic.zookeeper_topics import refuse_name
from moldau.model.broker_config import BROKER_KEYS as KEYS_OF_A_BROKER
from moldau.model.config_key import INT_MAX, LONG_MAX, ConfigKey, Kind, table
from moldau.model.dynamic_config import BY_LISTENER, DYNAMIC_KEYS, PER_BROKER
from moldau.ports.zookeeper import ZooKeeper
from moldau.zookeeper import paths

ABOUT = "This tool helps to manipulate and describe entity config for a topic, client, user, broker or ip"
THROTTLES = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)
"""What a running broker may be told by way of ZooKeeper."""
ITERATIONS = 4096
_QUOTAS = table(
    *(ConfigKey(name, Kind.LONG, LONG_MAX, "Bytes a second.") for name in ("producer_byte_rate", "consumer_byte_rate")),
    ConfigKey("request_percentage", Kind.DOUBLE, None, "Share of a thread's time."),
    ConfigKey("controller_mutation_rate", Kind.DOUBLE, None, "Partitions a second."),
)
_IPS = table(ConfigKey("connection_creation_rate", Kind.INT, INT_MAX, "Connections a second.", low=0))
_VERSION = "message.format.version"
_OF_LISTENER = re.compile(r"listener\.name\.[^.]*\.(.*)", re.DOTALL)


def main(arguments: list[str]) -> int:
    """Run the tool; the exit status."""
    try:
        given = GivenOptions(OPTIONS, arguments)
        help_or_version(given, ABOUT)
        check(given)
        print("Warning: --zookeeper is deprecated and will be removed in a future version of Kafka.")
        print("Use --bootstrap-server instead to specify a broker to connect to.")

        async def work(zk: ZooKeeper) -> int:
            await (_alter if given.has("alter") else _describe)(zk, given)
            return 0

        return in_zookeeper(given.text("zookeeper"), work)
    except JavaError as error:
        return refused(error, arguments)


async def _describe(zk: ZooKeeper, given: GivenOptions) -> None:
    wanted = entity_in(given)
    all_users = wanted.parts == [("users", None)]
    for entity in await entities_below(zk, wanted):
        settings = await read_settings(zk, entity.path)
        if settings or not all_users:
            listed = ",".join(f"{key}={value}" for key, value in settings.items())
            print(f"Configs for {entity} are {listed}")


async def _alter(zk: ZooKeeper, given: GivenOptions) -> None:
    added = _added(given)
    deleted = [key.strip() for key in given.values("delete-config")]
    entity = entity_in(given)
    if entity.kind == "users":
        added = {key: _credential(key, text) if key in SCRAM else text for key, text in added.items()}
    elif entity.kind == "brokers":
        added = await _of_broker(zk, entity, added)
    old = await read_settings(zk, entity.path)
    unknown = [key for key in deleted if key not in old]
    if unknown:
        raise JavaError(INVALID, f"Invalid config(s): {','.join(unknown)}")
    settings = {key: value for key, value in {**old, **added}.items() if key not in deleted}
    await _check(zk, entity, settings)
    await change_settings(zk, entity.path, settings)
    print(f"Completed updating config for entity: {entity}.")


def _added(given: GivenOptions) -> dict[str, str]:
    """What is to be set: of the file, or of the option."""
    added = read_config(given.value("add-config-file"))
    added.update(pairs_of(given.value("add-config"), 'in the format "key=val".'))
    if _VERSION in added:
        newer = "ignored if the version is newer than the inter.broker.protocol.version specified in the broker"
        said = f"The configuration {_VERSION}={added[_VERSION]} is specified."
        print(f"WARNING: {said} This configuration will be {newer}.")
    return added


async def _check(zk: ZooKeeper, entity: Entity, settings: dict[str, str]) -> None:
    """JavaError when an entity cannot have all these settings."""
    if entity.kind == "topics":
        name = entity.parts[0][1] or ""
        refuse_name(name)
        if await read_topic(zk, name) is None:
            raise JavaError(f"{PACKAGE}UnknownTopicOrPartitionException", f"Topic '{name}' does not exist.")
        refuse_topic_settings(settings)
    elif entity.kind == "brokers":
        refuse_values(settings, DYNAMIC_KEYS.values())
    else:
        keys = _IPS if entity.kind == "ips" else _QUOTAS
        names = set(keys)
        if entity.kind == "users" and len(entity.parts) == 1 and entity.parts[0][1] != paths.DEFAULT_ENTITY:
            names.update(SCRAM)
        unknown = table_order([key for key in settings if key not in names], string_hash)
        if unknown:
            what = f"Unknown Dynamic Configuration: HashSet({', '.join(unknown)})."
            raise illegal_argument(f"requirement failed: {what}")
        refuse_values(settings, keys.values())


# ---- brokers


async def _of_broker(zk: ZooKeeper, entity: Entity, added: dict[str, str]) -> dict[str, str]:
    """What may be added to a broker's settings; JavaError while it runs, but for throttles."""
    dynamic = [key for key in table_order(added, string_hash) if key not in THROTTLES]
    if not dynamic:
        return added
    name = entity.parts[0][1]
    alive = await zk.children(paths.BROKER_IDS)
    one = name != paths.DEFAULT_ENTITY
    if name in alive if one else alive:
        when = f"when broker {name} is running" if one else "for default cluster if any broker is running"
        need = f"--bootstrap-server option must be specified to update broker configs {shown_set(dynamic)}. {when}"
        what = "Broker configuration updates using ZooKeeper are supported for bootstrapping before brokers are started"
        raise illegal_argument(
            f"requirement failed: {need}. {what} to enable encrypted password configs to be stored in ZooKeeper."
        )
    _refuse_of_broker([key for key in dynamic if not key.startswith("password.encoder.")], added, one=one)
    return {key: value for key, value in added.items() if not key.startswith("password.encoder.")}


def _refuse_of_broker(names: Sequence[str], added: dict[str, str], *, one: bool) -> None:
    fixed = [name for name in names if name in KEYS_OF_A_BROKER and name not in BROKER_KEYS]
    if fixed:
        raise JavaError(CONFIG_ERROR, f"Cannot update these configs dynamically: {shown_set(fixed)}")
    if bare := [name for name in names if name in BY_LISTENER]:
        only = "can be dynamically updated only per-listener using the listener prefix"
        raise JavaError(CONFIG_ERROR, f"These security configs {only}: HashSet({', '.join(bare)})")
    plain = {(match[1] if (match := _OF_LISTENER.fullmatch(name)) else name): added[name] for name in names}
    refuse_values(plain, DYNAMIC_KEYS.values())
    own = [name for name in names if name in PER_BROKER or _OF_LISTENER.fullmatch(name)]
    if own and not one:
        what = f"Cannot update these configs at default cluster level, broker id must be specified: {shown_set(own)}"
        raise JavaError(CONFIG_ERROR, what)
    secret = [key for key, value in DYNAMIC_KEYS.items() if value.kind is Kind.PASSWORD]
    passwords = [name for name in names if name.endswith(tuple(secret))]
    if passwords and "password.encoder.secret" in added:
        raise illegal_argument("passwords in ZooKeeper are not encrypted by Moldau's tools yet")
    if passwords:
        need = f"password.encoder.secret must be specified to update {shown_set(passwords)}."
        more = "Other password encoder configs like cipher algorithm and iterations may also be specified to override"
        kept = "the default encoding parameters. Password encoder configs will not be persisted in ZooKeeper."
        raise illegal_argument(f"requirement failed: {need} {more} {kept}")


# ---- users


def _credential(mechanism: str, text: str) -> str:
    """What a user's znode says of a password (KIP-84); JavaError when it cannot be made out of the text."""
    name = mechanism.replace("-", "_")
    match = re.fullmatch(r"(?:iterations=([0-9]*),)?password=(.*)", text)
    if match is None:
        raise illegal_argument(f"Invalid credential property {name}={text}")
    try:
        iterations = ITERATIONS if match[1] is None else java_integer(match[1])
    except ValueError as error:
        raise illegal_argument(str(error)) from None
    if iterations < ITERATIONS:
        raise illegal_argument(f"Iterations {iterations} is less than the minimum {ITERATIONS} required for {name}")
    algorithm = "sha" + mechanism.rpartition("-")[2]
    salt = urandom(20)
    salted = pbkdf2_hmac(algorithm, match[2].encode(), salt, iterations)
    stored = new(algorithm, digest(salted, b"Client Key", algorithm)).digest()
    server = digest(salted, b"Server Key", algorithm)
    shown = (b64encode(each).decode() for each in (salt, stored, server))
    return "salt={},stored_key={},server_key={},iterations={}".format(*shown, iterations)
