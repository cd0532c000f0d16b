"""Every figure of a node at this moment, under the names that Kafka's dashboards ask for (JMX exporter's lower case).

Looked up when somebody asks, so that they cost nothing otherwise; ten thousand partitions are walked in pieces, between
which the loop turns. What only counts (elections, ISR changes, records in) is counted where it happens. A figure that
this node's roles do not have is left out. Read next: ``text.py`` (the format), ``elections.py``.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator

from moldau import __version__
from moldau.broker.lifecycle import Stage
from moldau.broker.loop import sleep
from moldau.broker.metrics.cleaner_figures import cleaner_figures
from moldau.broker.metrics.damage_figures import damage_figures
from moldau.broker.metrics.elections import Elections
from moldau.broker.metrics.reported import Reported
from moldau.broker.metrics.text import Family
from moldau.broker.metrics.traffic_figures import requests, topics
from moldau.broker.replicas.replica import Replica
from moldau.image import NO_LEADER, Image
from moldau.image.configs import topic_value
from moldau.replication.roles import Role

AT_ONCE = 500
"""Partitions looked at before the loop turns."""
BROKER_STATES = {Stage.STARTING: 1, Stage.FENCED: 2, Stage.RUNNING: 3, Stage.LEAVING: 6, Stage.GONE: 7}
"""Kafka's numbers of a broker's states."""
_BROKER, _CONTROLLER = "kafka_server_replicamanager_", "kafka_controller_kafkacontroller_"


async def figures(node: Reported, elections: Elections) -> list[Family]:
    """All families of a node, some with samples."""
    found = [*_process(), *_connections(node), _survived(node)]
    if node.config.is_controller:
        found += _of_controller(node, elections)
    if not node.config.on_zookeeper:
        found += _quorum(node)
    if node.lifecycle is not None:
        found += _of_broker(node)
    if node.loaded:
        found += await _partitions(node)
    return found


def _process() -> Iterator[Family]:
    build = Family("moldau_build_info", "1; the labels say which Moldau runs on which Python.")
    build.add(1, version=__version__, python=platform.python_version())
    yield build
    yield Family("process_cpu_seconds_total", "Processor time used.", time.process_time())
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        yield Family("process_resident_memory_bytes", "Memory in use.", resident)
        yield Family("process_open_fds", "Open files and connections.", len(os.listdir("/proc/self/fd")))
    except OSError:
        return  # a system without /proc


def _survived(node: Reported) -> Family:
    errors = Family("moldau_unexpected_errors_total", "Errors nobody expected, which stopped nothing.")
    for where, count in sorted(node.survivals.items()):
        errors.add(count, where=where)
    return errors


def _connections(node: Reported) -> Iterator[Family]:
    count = Family("kafka_server_socket_server_metrics_connection_count", "Connections by listener.")
    for socket_listener in node.listeners:
        count.add(len(socket_listener.connections), listener=socket_listener.name)
    return iter((count, *requests(node)))


def _of_controller(node: Reported, elections: Elections) -> Iterator[Family]:
    image: Image = node.metadata.image
    index = image.index
    fenced = sum(broker.fenced for broker in image.brokers.values())
    partitions = sum(len(topic.partitions) for topic in image.topics.values())
    for name, help, value in (
        ("activecontrollercount", "1 where this node is the active controller.", node.controller.active),
        ("offlinepartitionscount", "Partitions without a leader.", len(index.led.get(NO_LEADER, ()))),
        ("preferredreplicaimbalancecount", "Partitions not led by their preferred replica.", len(index.astray)),
        ("globaltopiccount", "Topics.", len(image.topics)),
        ("globalpartitioncount", "Partitions.", partitions),
        ("activebrokercount", "Brokers that are registered and not fenced.", len(image.brokers) - fenced),
        ("fencedbrokercount", "Brokers that are registered and fenced.", fenced),
        ("metadataerrorcount", "Committed records that could not be applied: such a node has stopped.", 0),
    ):
        yield Family(_CONTROLLER + name, help, value)
    stats = "kafka_controller_controllerstats_"
    yield Family(stats + "uncleanleaderelections_total", "Unclean elections seen since the start.", elections.unclean)
    elected = Family(stats + "leaderelectionrateandtimems", "Elections seen since the start.", summary=True)
    elected.add(elections.total, "_count")
    yield elected
    queue = "kafka_controller_controllereventmanager_eventqueuesize"
    yield Family(queue, "Decisions that wait to be committed.", node.controller.awaiting_commit)
    imbalance = Family(
        _CONTROLLER + "leaderimbalanceratio", "Share of its preferred leads that a broker does not have."
    )
    for broker in sorted(image.brokers):
        should = index.preferred.get(broker, 0)
        if should:
            led = sum(1 for key in index.led.get(broker, ()) if key not in index.astray)
            imbalance.add(round(1 - led / should, 4), broker=broker)
    yield imbalance


def _quorum(node: Reported) -> Iterator[Family]:
    quorum = node.plane.quorum if node.has_joined else None
    if quorum is None:
        return
    leader, epoch = node.plane.leader
    raft = "kafka_server_raftmetrics_"
    state = Family(raft + "current_state", "1 at the state in which this node is in the quorum.")
    state.add(1, current_state=type(quorum.role).__name__.lower())
    yield state
    yield Family(raft + "current_leader", "The quorum's leader; -1 when unknown.", -1 if leader is None else leader)
    yield Family(raft + "current_epoch", "The quorum's epoch.", epoch)
    yield Family(raft + "high_watermark", "Metadata records that are committed.", quorum.high_watermark)
    yield Family(raft + "log_end_offset", "End of the metadata log here.", quorum.log.end)
    missing = "1 where the metadata log was removed or unmounted below this node, and its next start would not find it."
    yield Family(raft + "log_missing", missing, int(bool(node.plane.missing_log)))
    applied = "kafka_server_brokermetadatametrics_last_applied_record_offset"
    yield Family(applied, "The last metadata record applied.", node.metadata.offset)


def _of_broker(node: Reported) -> Iterator[Family]:
    assert node.lifecycle is not None, "a broker has a life"
    state = BROKER_STATES[node.lifecycle.stage]
    yield Family(
        "kafka_server_kafkaserver_brokerstate", "1 starting, 2 fenced, 3 running, 6 in shutdown, 7 gone.", state
    )
    if node.loaded:
        groups = sum(len(led.shard.groups) for led in node.coordinator.shards.values())
        yield Family("kafka_coordinator_group_groupmetadatamanager_numgroups", "Groups coordinated here.", groups)
    if node.data is not None:
        offline = len(node.data.log_dirs.offline)
        yield Family("kafka_log_logmanager_offlinelogdirectorycount", "Log directories that failed.", offline)
        yield from cleaner_figures(node.data.log_dirs, node.data.cleaning)
        yield from damage_figures(node.data.log_dirs)


class _Partitions:
    """Sums over this broker's partitions, and samples for each."""

    def __init__(self, node: Reported) -> None:
        self._image: Image = node.metadata.image
        self._static = node.config.static_topic_config()
        self._min_isr: dict[str, int] = {}
        self.leaders = self.short = self.under = self.at = self.offline = self.moving = self.lag = 0
        cluster, log = "kafka_cluster_partition_", "kafka_log_log_"
        self.each = {
            name: Family(prefix + name, help)
            for prefix, name, help in (
                (cluster, "underreplicated", "1 where replicas are missing in the ISR."),
                (cluster, "underminisr", "1 where the ISR is smaller than min.insync.replicas."),
                (cluster, "atminisr", "1 where the ISR has just min.insync.replicas."),
                (cluster, "replicascount", "Replicas."),
                (cluster, "insyncreplicascount", "Replicas in sync."),
                (log, "size", "Bytes of the log."),
                (log, "logstartoffset", "First offset of the log."),
                (log, "logendoffset", "End of the log."),
                (log, "numlogsegments", "Segments of the log."),
            )
        }

    def count(self, replica: Replica) -> None:
        """Count one replica in."""
        machine, log = replica.machine, replica.log
        where = {"topic": replica.partition.topic, "partition": replica.partition.partition}
        each = self.each
        each["size"].add(log.size, **where)
        each["logstartoffset"].add(log.log_start_offset, **where)
        each["logendoffset"].add(log.log_end_offset, **where)
        each["numlogsegments"].add(len(log.segments), **where)
        if machine.role is Role.OFFLINE:
            self.offline += 1
        if machine.role is not Role.LEADER:
            self.lag = max(self.lag, machine.high_watermark - log.log_end_offset)
            return
        least = min(self._least(replica.partition.topic), len(machine.replicas))
        short, in_sync = len(machine.isr) < len(machine.replicas), len(machine.isr)
        self.leaders += 1
        self.short += short
        self.under += in_sync < least
        self.at += in_sync == least
        self.moving += bool(machine.adding or machine.removing)
        each["underreplicated"].add(short, **where)
        each["underminisr"].add(in_sync < least, **where)
        each["atminisr"].add(in_sync == least, **where)
        each["replicascount"].add(len(machine.replicas), **where)
        each["insyncreplicascount"].add(in_sync, **where)

    def _least(self, topic: str) -> int:
        if topic not in self._min_isr:
            self._min_isr[topic] = int(topic_value(self._image, topic, "min.insync.replicas", self._static))
        return self._min_isr[topic]


async def _partitions(node: Reported) -> list[Family]:
    replicas = node.replicas
    sums = _Partitions(node)
    for number, replica in enumerate(list(replicas.by_key.values()), 1):
        sums.count(replica)
        if number % AT_ONCE == 0:
            await sleep(node.world.tasks, 0)
    return [
        Family(_BROKER + "leadercount", "Partitions that this broker leads.", sums.leaders),
        Family(
            _BROKER + "partitioncount", "Replicas on this broker.", len(replicas.by_key) + len(replicas.unreachable)
        ),
        Family(_BROKER + "underreplicatedpartitions", "Led here, with replicas missing in the ISR.", sums.short),
        Family(_BROKER + "underminisrpartitioncount", "Led here, acks=all is refused.", sums.under),
        Family(_BROKER + "atminisrpartitioncount", "Led here, one less and acks=all is refused.", sums.at),
        Family(
            _BROKER + "offlinereplicacount",
            "Replicas whose log directory has failed.",
            sums.offline + len(replicas.unreachable),
        ),
        Family(_BROKER + "reassigningpartitions", "Led here and under reassignment.", sums.moving),
        Family(_BROKER + "isrshrinks_total", "Replicas that left an ISR.", replicas.isr_shrinks),
        Family(_BROKER + "isrexpands_total", "Replicas that joined an ISR.", replicas.isr_expands),
        *topics(replicas),
        *sums.each.values(),
    ]
