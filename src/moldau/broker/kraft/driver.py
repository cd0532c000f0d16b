"""The driver: feeds the quorum machine with events and does what it says, in order. One per node.

The machine steps at once, on the loop; its effects queue and are done one after the other, across the few that leave
the loop (persisting a vote, installing a snapshot). Flushes are shared: however many appends a turn of the loop
makes, one fdatasync follows (group commit). Decides nothing about the quorum: ``moldau.quorum`` does. Read next:
``effects.py``.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Sequence

from moldau.broker.kraft.batches import Decided, proposal
from moldau.broker.kraft.effects import EffectExecutor
from moldau.broker.kraft.peers import Endpoints, Stranger, Unusable, WrongCluster
from moldau.broker.kraft.settings import RaftSettings
from moldau.broker.kraft.watch import FolderCheck, QuorumWatch
from moldau.client.lines import UnsupportedApi
from moldau.ports import Handle
from moldau.ports.pools import QUORUM
from moldau.quorum import At, Quorum, deadline_ms, start, step
from moldau.quorum import effects as do
from moldau.quorum import events as on
from moldau.quorum.messages import RaftRequest, RaftSnapshotRequest
from moldau.storage.errors import BrokerWithoutDisk, DirOffline, LogError
from moldau.wire.codec import Malformed
from moldau.wire.schema import Message

log = logging.getLogger(__name__)

CHANCE = 1 << 30
STOPS = "It holds the metadata log, and this node stops: mend the disk, or give it space, and start the node again"
Address = tuple[str, int] | None


class Driver:
    """A running machine. ``quorum`` is its state; effects may still be on their way."""

    def __init__(self, settings: RaftSettings) -> None:
        self._settings = settings
        self._world = settings.world
        self._tasks = settings.world.tasks
        self._todo: deque[do.Effect] = deque()
        self._doing = False
        self._timer: Handle | None = None
        self._timer_ms = 0
        self._flush_wanted = False
        self._flushing = False
        self._over = self._failed = False
        self._strangers: set[int] = set()
        self._announced: dict[int, Address] = {}
        self._told: dict[int, Address] = {}
        self.quorum: Quorum
        self.executor = EffectExecutor(settings, self)
        self._watch = QuorumWatch(settings.world, self.executor.label, self.address)

    def start(self) -> None:
        """Open the log, deliver the newest snapshot, and take the state that record and log say."""
        blank, election = self.executor.open()
        self.quorum, effects = start(blank, election, self._at())
        self._folder_check = FolderCheck(self._world, self.executor.label, self._settings.folder, self.executor.log)
        self._folder_check.start()
        log.info("[%s] starts as %s", self.executor.label, _named(self.quorum))
        self._watch.update(self.quorum)
        self._do(effects)

    @property
    def missing_log(self) -> str:
        """Why the next start would not find the metadata log; "" when it would."""
        return self._folder_check.lack

    def end(self) -> None:
        """Stop for good; nothing is done after this."""
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
        self._watch.close()
        self._folder_check.close()
        self._todo.clear()
        try:
            self.executor.close()
        except LogError as error:
            if not self._failed:
                raise
            log.debug("a metadata log that failed is not closed either: %s", error)

    # ---- events

    def feed(self, event: on.Event) -> None:
        """Something has happened."""
        if self._over:
            return
        before, led_by, voters = self.quorum.role, self.quorum.leader, self.quorum.voters
        try:
            self.quorum, effects = step(self.quorum, event, self._at())
        except Exception as error:
            if isinstance(event, on.RequestReceived) and not isinstance(error, AssertionError):
                # The state is a value, and is what it was: this costs only the one who asked.
                self.executor.give_up(event.token, error)
            else:
                self.fail(error)
            return
        self._watch.update(self.quorum)
        role = self.quorum.role
        if type(role) is not type(before) or role.epoch != before.epoch:
            log.info("[%s] becomes %s on %s", self.executor.label, _named(self.quorum), type(event).__name__)
        self._do(effects)
        if self.quorum.voters is not voters and self.quorum.voters != voters:
            log.info("[%s] the voters are %s", self.executor.label, self.quorum.voters.ids)
            self._announced.clear()
            self._settings.voters_changed()
        if self.quorum.leader != led_by and self.quorum.leader is not None:
            self._settings.leader_changed()

    def propose(self, records: Sequence[Message], epoch: int) -> int | None:
        """Append records as one batch; the offset of the last, None when we are not active in ``epoch``."""
        quorum = self.quorum
        if quorum.active_epoch != epoch or quorum.closing or not records:
            return None
        base = quorum.log.end
        last = base + len(records) - 1
        data = proposal(records, base, epoch, self._world.clock.wall_ms())
        self.executor.delivery.propose(Decided(records, last, epoch))
        self.feed(on.Propose(epoch, len(records), data))
        return last

    def _at(self) -> At:
        return At(self._world.clock.monotonic_ms(), self._world.random.below(CHANCE))

    # ---- effects

    def _do(self, effects: list[do.Effect]) -> None:
        self._todo += effects
        if not self._doing:
            self._doing = True
            self._go_on()
        self._set_timer()

    def _go_on(self) -> None:
        """Do what stands in line, up to something that takes place off the loop; that goes on from here when it is
        done.
        """
        while self._todo and not self._over:
            try:
                waiting = self.executor.carry_out(self._todo.popleft())
            except Exception as error:
                self.fail(error)
                return
            if waiting is not None:
                self._tasks.spawn(self._resume(waiting), "quorum effects")
                return
        self._doing = False

    def fail(self, error: Exception) -> None:
        """The machine and its effects part here: do nothing more, and let the node stop (law X7)."""
        if self._over:
            return
        self._over = self._failed = True
        self._watch.close()
        self._folder_check.close()
        if isinstance(error, DirOffline) and not isinstance(error, BrokerWithoutDisk):
            error = BrokerWithoutDisk(error.path, error.cause, STOPS)

        async def stop() -> None:
            raise error

        self._tasks.spawn(stop(), "quorum")

    async def _resume(self, waiting: Awaitable[None]) -> None:
        await waiting
        if not self._over:
            self._go_on()

    def _set_timer(self) -> None:
        due_ms = deadline_ms(self.quorum)
        if self._over or due_ms is None or (self._timer is not None and self._timer_ms <= due_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = due_ms
        self._timer = self._tasks.call_later(due_ms - self._world.clock.monotonic_ms(), self._tick)

    def _tick(self) -> None:
        self._timer = None
        due_ms = deadline_ms(self.quorum)
        if due_ms is not None and due_ms <= self._world.clock.monotonic_ms():
            self.feed(on.Tick())
        self._set_timer()

    # ---- group commit

    def flush_soon(self) -> None:
        """One flush for all that this turn of the loop appends, and another for what comes while it runs."""
        if not self._flush_wanted:
            self._flush_wanted = True
            if not self._flushing:
                self._flushing = True
                self._tasks.call_soon(lambda: self._tasks.spawn(self._flush(), "quorum flush"))

    async def _flush(self) -> None:
        while self._flush_wanted and not self._over:
            self._flush_wanted = False
            flush = self.executor.log.begin_flush()
            end = self.executor.log.log_end_offset
            if flush is not None:
                await self._tasks.off_loop(flush.run, QUORUM)
                self.executor.log.end_flush(flush)
            self.feed(on.Flushed(end))
        self._flushing = False

    # ---- where they are

    def address(self, id: int | None) -> Address:
        """Where a node listens: as it said itself, as the voter set says, or as others say; None when nobody does."""
        if id is None:
            return None
        if id < -1:
            return self._settings.bootstrap[-2 - id]
        if id == self._settings.me.id and not self.quorum.has_fixed_voters:
            own = self._settings.endpoints()
            return (own[0].host, own[0].port) if own else None
        return self._announced.get(id) or self._address_on_record(id) or self._told.get(id)

    def _address_on_record(self, id: int) -> Address:
        voter = self.quorum.voters.voter(id)
        if voter is None or not voter.endpoints:
            return None
        named = [one for one in voter.endpoints if one.name == self._settings.listener]
        found = named[0] if named else voter.endpoints[0]
        return found.host, found.port

    def announced(self, id: int, host: str, port: int) -> None:
        """A leader said where it listens."""
        self._announced[id] = (host, port)

    def own_endpoints(self) -> Endpoints:
        """What we tell others when we lead."""
        voter = self.quorum.voters.voter(self._settings.me.id)
        fixed = voter is not None and self.quorum.has_fixed_voters
        shown = voter.endpoints if voter is not None and fixed else self._settings.endpoints()
        return [(one.name, one.host, one.port) for one in shown]

    # ---- asking peers

    def send(self, peer: int, raft_request: RaftRequest) -> None:
        """Ask a peer; exactly one event follows."""
        self._tasks.spawn(self._send(peer, raft_request), f"quorum asks {peer}")

    async def _send(self, peer: int, raft_request: RaftRequest) -> None:
        settings = self._settings
        most = settings.snapshot_fetch_bytes if isinstance(raft_request, RaftSnapshotRequest) else settings.fetch_bytes
        event: on.Event
        try:
            from moldau.broker.kraft.answers import to_answer  # here: see peers.py
            from moldau.broker.kraft.requests import to_request

            request = to_request(raft_request, settings.cluster_id, self.own_endpoints(), most)
            response = await settings.peers.ask(peer, request, settings.request_timeout_ms)
            for node in response.node_endpoints:
                self._told[node.node_id] = (node.host, node.port)
            answer = to_answer(response)
            self._watch.answered(peer, raft_request, answer)
            event = on.ResponseReceived(peer, raft_request, self.executor.with_voters(answer))
            self._strangers.discard(peer)
        except ConnectionRefusedError:
            self._watch.failed(peer)
            event = on.ConnectionRefused(peer, raft_request)
        except (OSError, Malformed, Unusable, UnsupportedApi) as error:
            if not isinstance(error, OSError):
                log.warning(
                    "[%s] %s of node %d cannot be used: %s",
                    self.executor.label,
                    type(raft_request).__name__,
                    peer,
                    error,
                )
            self._watch.failed(peer)
            event = on.Unreachable(peer, raft_request)
            if isinstance(error, Stranger):
                self._met_stranger(peer)
        self.feed(event)

    def _met_stranger(self, peer: int) -> None:
        """A voter of another cluster may be lost among ours; when most of them are, it is we who are lost."""
        self._strangers.add(peer)
        settings = self._settings
        asked = max(len(self.quorum.voters.voters), len(settings.bootstrap))
        if self.quorum.leader is None and 2 * len(self._strangers) > asked:
            where = f"the cluster id of {settings.folder} is {settings.cluster_id}"
            self.fail(
                WrongCluster(
                    f"most of the controllers belong to another cluster: {where}; format the folder with"
                    " theirs, or name the right voters"
                )
            )


def _named(quorum: Quorum) -> str:
    role = quorum.role
    leader = "" if role.leader is None else f", leader {role.leader}"
    return f"{type(role).__name__} (epoch {role.epoch}{leader}, log end {quorum.log.end})"
