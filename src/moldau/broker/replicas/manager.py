"""All replicas of this broker: changes of the image become roles, effects of the replication machines become actions.

Decides nothing about replication (``moldau.replication`` does) or records (``moldau.storage`` does); it joins the two
by partition, in order: each effect is done before the next. One timer sweeps all ISRs. A log directory that fails takes
its replicas offline, and no others. Read next: ``replica.py``, ``host.py``, ``follow/fetcher_manager.py``,
``fetch/reader.py``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from errno import ENOSPC
from functools import partial
from itertools import islice
from typing import Any

from moldau.broker.loop import Pace
from moldau.broker.metadata.undecided import Undecided
from moldau.broker.network.traffic import TopicTraffic
from moldau.broker.purgatory import DelayedOperationPurgatory
from moldau.broker.rate_limited_log import RateLimitedLog
from moldau.broker.replicas.alter_log_dirs import AlterReplicaLogDirs
from moldau.broker.replicas.assignments import AssignmentsManager
from moldau.broker.replicas.awaited_flushes import AwaitedFlushes
from moldau.broker.replicas.deps import BrokersSeen, ReplicaManagerDeps
from moldau.broker.replicas.examinations import Examinations
from moldau.broker.replicas.fetch.cold_reads import ColdReads
from moldau.broker.replicas.fetch.sessions import FetchSessionCache
from moldau.broker.replicas.folder_work import FolderWork
from moldau.broker.replicas.follow.fetcher_manager import FetcherManager
from moldau.broker.replicas.isr_updates import IsrUpdates
from moldau.broker.replicas.lost import append_failed, check_append
from moldau.broker.replicas.producer_ids import ProducerIds
from moldau.broker.replicas.recovery_points import RecoveryPoints
from moldau.broker.replicas.refused_producers import RefusedProducers
from moldau.broker.replicas.replica import Key, Replica
from moldau.broker.replicas.sequence_gaps import SequenceGaps
from moldau.broker.replicas.stopped import StoppedReplicas
from moldau.broker.replicas.throttles import Throttles
from moldau.broker.replicas.topic_log_configs import TopicConfigs
from moldau.broker.replicas.transactions import Transactions
from moldau.image import Delta, Image, PartitionDelta
from moldau.image import Partition as Assigned
from moldau.model import Code, TopicPartition
from moldau.ports import Handle
from moldau.ports.buggify import EARLY_ROLL
from moldau.replication import effects as effect_kinds
from moldau.replication.effects import Effects
from moldau.replication.facts import Assignment
from moldau.replication.partition import Partition
from moldau.replication.roles import Role
from moldau.storage import Appended, DirOffline, DiskFull, Given, LogConfig, LogError, ValidatedBatches
from moldau.storage.strays import make_way, sort_out_in_slices

log = logging.getLogger(__name__)

SWEPT_AT_ONCE = 250
"""Replicas a sweep looks at before it lets the loop turn."""
OPENED_AT_ONCE = 4
"""Replicas opened in one step: each touches the disk, which takes as long as telling many others. Fewer where the disk
is slow: a step ends when it has taken long."""
LOADED = 5
"""How many times quicker that is where the log is loaded already, as at the start."""
STRAYS_AT_ONCE = 5
"""How many times more logs of a start are compared with the image in one step than replicas are told."""
REMOVED_AT_ONCE = 50
"""Replicas removed in one step, or fewer where the disk is slow: each is renamed, and one sync is for all of them."""


class ReplicaManager:
    """The data plane's state. ``by_key`` and ``by_partition`` hold the same replicas under both names.

    ``on_started_leading`` and ``on_stopped_leading`` are called, in order, for each partition of which this broker
    begins or ceases to be the leader.
    """

    def __init__(self, deps: ReplicaManagerDeps) -> None:
        self.deps = deps
        self.me, self.logs = deps.me, deps.logs
        self.machine_class: type[Partition] = Partition  # ZooKeeper mode puts another one here, before replicas begin
        self.purgatory = DelayedOperationPurgatory(deps.world)
        self.examinations = Examinations(deps.world, deps.requests)
        self.brokers = BrokersSeen(deps.me, deps.broker_epoch)
        self.by_key: dict[Key, Replica] = {}
        self.by_partition: dict[TopicPartition, Replica] = {}
        self.unreachable: dict[Key, TopicPartition] = {}
        """Assigned here, but their log could not be opened or created: a directory is offline."""
        self.undecided, self.stopped = Undecided(), StoppedReplicas(self)
        self.on_started_leading: list[Callable[[Replica, int], object]] = []
        self.on_stopped_leading: list[Callable[[Replica], object]] = []
        self.traffic = TopicTraffic()
        self.on_lost: Callable[[], object] = lambda: None
        """Told when a replica was lost while its directory is not."""
        self.isr_shrinks = self.isr_expands = self.failed_produces = self.failed_fetches = 0
        """Counted since the start, for whoever asks."""
        self._clock = deps.world.clock
        self._configs = TopicConfigs(deps.me, deps.config)
        self._isr = IsrUpdates(deps, self.act)
        self.assignments = AssignmentsManager(deps)
        self.cold_reads = ColdReads(deps.world.tasks)
        self.throttles = Throttles(deps.me, deps.world.clock, deps.world.tasks)
        self.fetchers = FetcherManager(self)
        self.flushes = AwaitedFlushes(self)
        self.recovery_points, self.folders = RecoveryPoints(self), FolderWork(self)
        slots = deps.config["max.incremental.fetch.session.cache.slots"]
        self.sessions = FetchSessionCache(self, deps.world.clock, deps.world.random, slots)
        self.producer_ids, self.sequence_gaps = ProducerIds(deps), SequenceGaps(self._clock)
        self.refused_producers, self._no_files = RefusedProducers(self._clock), RateLimitedLog(self._clock, lines=1)
        self.transactions = Transactions(self)
        self.alter_log_dirs = AlterReplicaLogDirs(self)
        self._started = self._stopped = False
        self._sweep: Handle | None = None
        self._by_kind: dict[type, Callable[[Replica, Any], None]] = {  # Any: each takes the effects of its own class
            effect_kinds.AssignEpoch: lambda r, e: r.log.assign_epoch(e.epoch, e.start_offset),
            effect_kinds.Truncate: self._truncate,
            effect_kinds.Restart: self._restart,
            effect_kinds.AdvanceLogStart: self._advance_log_start,
            effect_kinds.HighWatermark: self._high_watermark,
            effect_kinds.Follow: lambda r, e: self.fetchers.follow(r, e.leader),
            effect_kinds.StopFollowing: lambda r, e: self.fetchers.unfollow(r),
            effect_kinds.StartedLeading: self._started_leading,
            effect_kinds.StoppedLeading: self._stopped_leading,
            effect_kinds.AlterIsr: self._isr.submit,
            effect_kinds.IsrChanged: self._isr_changed,
        }

    @property
    def image(self) -> Image:
        return self.brokers.image

    @property
    def awaits_disk(self) -> bool:
        """Whether a log's flush, recovery point or folder is under way, which its next fetch waits for."""
        return bool(self.flushes or self.recovery_points or self.folders)

    def config_of(self, partition: TopicPartition) -> LogConfig:
        """What a log runs under; before the image is known, by the static settings."""
        return self._configs.log_config(self.image, partition.topic)

    # ---- finding

    def find(self, topic: str, number: int) -> Replica | Code:
        """The replica of a partition by its topic's name, or why there is none here."""
        replica = self.by_partition.get(TopicPartition(topic, number))
        if replica is not None:
            return Code.NOT_LEADER_OR_FOLLOWER if self._stopped else replica
        known = self.image.topic(topic)
        if known is None or number not in known.partitions:
            return Code.UNKNOWN_TOPIC_OR_PARTITION
        return self._absent((known.id, number))

    def find_by_id(self, topic_id: bytes, number: int) -> Replica | Code:
        """The replica of a partition by its topic's id, or why there is none here."""
        replica = self.by_key.get((topic_id, number))
        if replica is not None:
            return Code.NOT_LEADER_OR_FOLLOWER if self._stopped else replica
        known = self.image.topics.get(topic_id)
        if known is None:
            return Code.UNKNOWN_TOPIC_ID
        return Code.UNKNOWN_TOPIC_OR_PARTITION if number not in known.partitions else self._absent((topic_id, number))

    def _absent(self, key: Key) -> Code:
        return Code.KAFKA_STORAGE_ERROR if key in self.unreachable else Code.NOT_LEADER_OR_FOLLOWER

    # ---- the image

    def apply(self, image: Image, delta: Delta) -> None:
        """Act on a change of the image, all at once."""
        for _ in self.apply_in_slices(image, delta):
            pass

    def apply_in_slices(self, image: Image, delta: Delta) -> Iterator[None]:
        """Act on a change of the image, and pause where the loop should turn. The first call removes logs that belong
        to nobody (KAFKA-14616).

        Whoever looks meanwhile finds replicas that have not yet heard, as they are on a broker that is a moment behind:
        epochs tell. The next change is not begun before this one is through.
        """
        if self._stopped:
            return
        self.brokers.image = image
        first = not self._started
        if first:
            yield from self._start()
        if delta.configs:
            self._reconfigure(set(delta.configs))
        for broker, before in delta.brokers.items():
            if before is not None and broker != self.me:
                self._forget_lost_disks(broker, before.log_dirs)
        changes: Iterable[PartitionDelta] = delta.changes(image)
        if not first:
            changes = self.undecided.decided(image, delta)
            yield from self._remove_in_slices(changes)
        pace = Pace(self.deps.world.step, self._clock)
        much = max(pace.step // OPENED_AT_ONCE, 1)
        for change in changes:
            if self._stopped:
                return
            if change.after is not None and self.me in change.after.replicas and change.key not in self.stopped:
                spent = 1 if change.key in self.by_key else 1 + much // LOADED if first else much
                # At the start every partition looks new, and its log may be in a directory that is offline.
                is_new = not first and (change.before is None or self.me not in change.before.replicas)
                self._assign(change.topic, change.after, is_new)
                if pace.spent(spent):
                    yield
        yield from self.stopped.begin_in_slices(image, self._assign)
        if delta.brokers:
            yield from self._brokers_changed(set(delta.brokers))

    def has(self, key: Key) -> bool:
        """Whether a replica is here, stopped or not."""
        return key in self.by_key or key in self.stopped

    def _start(self) -> Generator[None, None, None]:
        self._started = True
        at_once, now_ms = STRAYS_AT_ONCE * self.deps.world.step, self._clock.wall_ms()
        topics = self.image.topics.keys() | self.undecided.awaited.values()
        assigned = partial(self.undecided.topic_of_replica, self.image, self.me)
        for sentence in (yield from sort_out_in_slices(self.logs, topics, assigned, now_ms, at_once)):
            log.warning("%s", sentence)
        self.alter_log_dirs.wake()
        self._schedule_sweep()

    def _reconfigure(self, resources: set[tuple[int, str]]) -> None:
        self.throttles.changed(self.image, resources)
        self.fetchers.reconfigure()
        topics = self._configs.changed(self.image, resources)
        for partition, replica in self.by_partition.items():
            if topics is None or partition.topic in topics:
                replica.log.reconfigure(self._configs.log_config(self.image, partition.topic))

    def _assign(self, topic: str, assigned: Assigned, is_new: bool) -> None:
        key = (assigned.topic_id, assigned.id)
        replica = self.by_key.get(key)
        if replica is None:
            replica = self._open(TopicPartition(topic, assigned.id), assigned, is_new)
        self.assignments.place(assigned, self.image, replica, waits=key in self.unreachable)
        if replica is None:
            return
        said = Assignment(
            assigned.leader,
            assigned.leader_epoch,
            assigned.partition_epoch,
            assigned.isr,
            assigned.replicas,
            assigned.adding,
            assigned.removing,
            assigned.recovery != 0,
        )
        code, effects = replica.machine.assign(said, self._clock.monotonic_ms())
        if code is Code.NONE:
            self.act(replica, effects)

    def place(self, key: Key) -> None:
        """The log of the replica lies in another directory now, or in none."""
        assigned = self.image.partition(*key)
        if assigned is not None:
            self.assignments.place(assigned, self.image, self.by_key.get(key), waits=key in self.unreachable)

    def _open(self, partition: TopicPartition, assigned: Assigned, is_new: bool) -> Replica | None:
        """A replica around the partition's log, which is created if there is none yet; None when no disk has room."""
        key = (assigned.topic_id, assigned.id)
        now_ms = self._clock.wall_ms()
        config = self._configs.log_config(self.image, partition.topic)
        try:
            found = self.logs.logs.get(partition)
            if found is not None and found.topic_id not in (None, assigned.topic_id):
                self.logs.set_aside((partition,), now_ms)
                found = None
            if found is None:
                if partition in self.logs.left_alone:
                    make_way(self.logs, partition)
                found = self.logs.create(partition, assigned.topic_id, config, now_ms=now_ms, is_new=is_new)
            elif found.config is not config:
                found.reconfigure(config)
        except LogError as error:
            if isinstance(error, DirOffline):
                self.failed(error)
            if key not in self.unreachable:  # it is tried again with each change of the partition
                log.error("%s cannot be opened: %s", partition, error)
            self.unreachable[key] = partition
            return None
        if not found.awaits_folder:
            self.unreachable.pop(key, None)
        limits = self._configs.limits(self.image, partition.topic)
        machine = self.machine_class(self.me, found, self.brokers, limits, found.high_watermark)
        found.high_watermark = machine.high_watermark
        replica = Replica(partition, key, found, machine, self.traffic.of(partition.topic))
        self.by_key[key] = self.by_partition[partition] = replica
        if found.dir.offline is not None:
            self.act(replica, machine.fail())
        return replica

    def _remove_in_slices(self, changes: Sequence[PartitionDelta]) -> Iterator[None]:
        """Give up the replicas that are no longer to be here."""
        pace = Pace(self.deps.world.step, self._clock)
        much = max(pace.step // REMOVED_AT_ONCE, 1)
        for change in changes:
            if change.after is None or self.me not in change.after.replicas:
                spent = much if change.key in self.by_key or change.key in self.stopped else 1
                removed = self.retire(change.key, deleted=change.after is None)
                if removed is not None:
                    self._delete(removed)
                if pace.spent(spent):
                    yield
                    if self._stopped:
                        return

    def retire(self, key: Key, *, deleted: bool = False) -> TopicPartition | None:
        """The partition of a replica that ends here, with a log for the caller to keep or delete; None without one."""
        self.unreachable.pop(key, None)
        self.assignments.forget(key)
        replica = self.by_key.pop(key, None)
        if replica is None:
            return self.stopped.take(key)
        self.by_partition.pop(replica.partition, None)
        if deleted:
            self._configs.forget(replica.partition.topic)
            self.traffic.forget(replica.partition.topic)
        self.act(replica, replica.machine.remove())
        replica.changed()
        return replica.partition

    def _delete(self, partition: TopicPartition) -> None:
        try:
            strays = (partition,) if self.undecided.take(partition) else ()
            self.logs.delete_all((partition,), self._clock.wall_ms(), strays=strays)
        except LogError as error:
            self.failed(error)

    def _forget_lost_disks(self, broker: int, before: tuple[bytes, ...]) -> None:
        """Directories of a follower failed: no leader here waits for what lay in them, or asks for it back."""
        now = self.image.brokers.get(broker)
        lost = set(before).difference(() if now is None else now.log_dirs)
        for assigned in self.image.partitions_on_broker(broker) if lost else ():
            replica = self.by_key.get(assigned.key)
            if replica is not None and assigned.directory(broker) in lost:
                replica.machine.lost_disk(broker)

    def _brokers_changed(self, ids: set[int]) -> Iterator[None]:
        """Registered, fenced or moved brokers: reach them where they are now, let who may join ISRs do so, and let no
        watermark wait for who may not."""
        self.fetchers.brokers_changed(ids)
        image, now_ms = self.image, self._clock.monotonic_ms()
        for id in sorted(ids - {self.me}):
            led, there = image.index.led.get(self.me, {}), image.index.assigned.get(id, {})
            keys = [key for key in led if key in there]
            step = self.deps.world.step
            for begin in range(0, len(keys), step):
                if begin:
                    yield
                for key in keys[begin : begin + step]:
                    replica = self.by_key.get(key)
                    if replica is not None and id not in replica.machine.isr and not self._stopped:
                        self.act(replica, replica.machine.brokers_changed(now_ms))
                        replica.followers_changed()

    # ---- effects

    def act(self, replica: Replica, effects: Effects) -> None:
        """Do what a machine asks, in order. A failing disk ends it: the replica is offline then."""
        try:
            for effect in effects:
                self._by_kind[type(effect)](replica, effect)
        except LogError as error:
            append_failed(self, replica, error)

    def _truncate(self, replica: Replica, effect: effect_kinds.Truncate) -> None:
        end = replica.log.log_end_offset
        if replica.log.truncate_to(effect.offset):
            log.info("%s: truncated from %d to %d", replica.partition, end, effect.offset)

    def _restart(self, replica: Replica, effect: effect_kinds.Restart) -> None:
        log.warning("%s: started over at %d, the leader's log start", replica.partition, effect.offset)
        replica.log.truncate_fully_at(effect.offset)
        replica.log.high_watermark = replica.machine.high_watermark

    def _advance_log_start(self, replica: Replica, effect: effect_kinds.AdvanceLogStart) -> None:
        replica.log.advance_log_start(effect.offset)

    def _high_watermark(self, replica: Replica, effect: effect_kinds.HighWatermark) -> None:
        replica.log.high_watermark = effect.offset
        replica.committed()

    def _started_leading(self, replica: Replica, effect: effect_kinds.StartedLeading) -> None:
        replica.changed()
        for listener in self.on_started_leading:
            listener(replica, effect.leader_epoch)

    def _stopped_leading(self, replica: Replica, effect: effect_kinds.StoppedLeading) -> None:
        replica.changed()
        for listener in self.on_stopped_leading:
            listener(replica)

    def _isr_changed(self, replica: Replica, effect: effect_kinds.IsrChanged) -> None:
        self.isr_shrinks += len(effect.after) < len(effect.before)
        self.isr_expands += len(effect.after) > len(effect.before)
        log.info("%s: ISR is now %s, was %s", replica.partition, list(effect.after), list(effect.before))
        replica.left_isr(set(effect.before).difference(effect.after))

    def failed(self, error: LogError) -> None:
        """Storage failed: replicas in directories that are offline now neither lead nor follow."""
        if not isinstance(error, DirOffline):  # what passes has one cause for all partitions, again and again
            if (after := self._no_files.more() if error.passing else "") is not None:
                log.error("%s%s", error, after)
            return
        for replica in list(self.by_key.values()):
            if replica.log.dir.offline is not None and replica.machine.role not in (Role.OFFLINE, Role.REMOVED):
                log.error("%s is offline: %s", replica.partition, error)
                self.act(replica, replica.machine.fail())
                replica.changed()

    def settled(self, replica: Replica) -> None:
        """The replica may answer for more of its log."""
        self.flushes.settled(replica)

    def flushed(self, replica: Replica) -> None:
        """What the replica fetched is durable, as far as that is wanted: fetch on."""
        self.fetchers.flushed(replica)

    def is_offline(self, key: Key) -> bool:
        """Whether a replica cannot be had here, for its directory has failed."""
        replica = self.by_key.get(key)
        return key in self.unreachable or (replica is not None and replica.log.dir.offline is not None)

    def offline_keys(self) -> list[Key]:
        """All such replicas."""
        failed = (key for key, one in self.by_key.items() if one.log.dir.offline is not None)
        return list(dict.fromkeys((*self.unreachable, *failed)))

    # ---- appends

    def append(self, replica: Replica, records: Given, acks: int, *, internal: bool = False) -> Appended:
        """Append a client's batches as leader; ``internal`` for coordinators' own. Refusals are codes."""
        machine = replica.machine
        code = Code.NOT_LEADER_OR_FOLLOWER if self._stopped else check_append(replica, acks, internal=internal)
        if code is not Code.NONE:
            return Appended(code)
        try:
            # Not a coordinator's log: what is rolled there is compacted soon, and worlds compare logs batch by batch.
            may_roll = not (internal or replica.log.awaits_file)
            if may_roll and (buggify := self.deps.world.buggify) is not None and buggify(EARLY_ROLL):
                replica.log.roll(now_ms=self._clock.wall_ms())
            appended = replica.log.append_leader(
                records, machine.leader_epoch, self._clock.wall_ms(), internal=internal
            )
        except LogError as error:
            if isinstance(error, DiskFull):  # as long as it led, no replica that has space could
                error = replica.log.dir.fail(OSError(ENOSPC, str(error)))
            append_failed(self, replica, error)
            return Appended(error.code, message=str(error))
        if appended.code is Code.NONE and not appended.duplicate:
            replica.traffic.records_in += appended.last_offset - appended.first_offset + 1
            replica.traffic.bytes_in += len(records.data if isinstance(records, ValidatedBatches) else records)
            replica.data_arrived(appended.first_offset)
            effects = machine.appended(self._clock.monotonic_ms())
            if effects:
                self.act(replica, effects)
        return appended

    # ---- time

    def _schedule_sweep(self) -> None:
        period_ms = self.deps.config["replica.lag.time.max.ms"] / 2
        self._sweep = self.deps.world.tasks.call_later(period_ms, self._begin_sweep)

    def _begin_sweep(self) -> None:
        self._schedule_sweep()
        self._sweep_some(iter([replica for replica in self.by_key.values() if replica.machine.role is Role.LEADER]))

    def _sweep_some(self, rest: Iterable[Replica]) -> None:
        """One slice of a sweep; ten thousand at once would hold up the loop."""
        if self._stopped:
            return
        now_ms = self._clock.monotonic_ms()
        swept = 0
        for replica in islice(rest, SWEPT_AT_ONCE):
            swept += 1
            effects = replica.machine.sweep(now_ms)
            if effects:
                self.act(replica, effects)
        if swept == SWEPT_AT_ONCE:
            self.deps.world.tasks.call_soon(lambda: self._sweep_some(rest))

    def stop(self) -> None:
        """Stop leading, following and sweeping, answer everybody who waits. From now on no log is changed here: what
        closes them, on another thread, vouches for all that was acknowledged."""
        self._stopped = True
        self.stopped.end()
        if self._sweep is not None:
            self._sweep.cancel()
        self._isr.close()
        self.assignments.close()
        for part in (self.alter_log_dirs, self.flushes, self.recovery_points, self.folders, self.fetchers):
            part.stop()
        self.examinations.stop()
        self.transactions.stop()
        self.purgatory.close()
        self.sessions.close()
