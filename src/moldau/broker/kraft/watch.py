"""What a log must say when the quorum does not go on: no majority for long, or a leader whose records do not fit; and
whether this node's metadata log is still where it was.

Decides nothing; ``driver.py`` tells it of every event.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from functools import partial

from moldau.broker.loop import sleep
from moldau.ports import Handle, World, pools
from moldau.quorum import Follower, Leader, Quorum
from moldau.quorum.messages import RaftFetchRequest, RaftFetchResponse, RaftRequest
from moldau.storage.log import Log
from moldau.storage.names import LOCK

log = logging.getLogger(__name__)

WARN_MS = 30_000
"""How long there is no majority until a warning, and from one warning to the next."""
CHECK_MS = 2_000
"""Between two looks at the metadata log's folder."""
GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO, errno.ESTALE, errno.EIO})
"""What a look may meet that says that the files are not there; too many open files say nothing of them."""


def is_led(quorum: Quorum) -> bool:
    """Whether a leader with a majority is there: one that answers us, or this node, once it has committed something."""
    role = quorum.role
    if isinstance(role, Leader):
        return role.high_watermark is not None
    return isinstance(role, Follower) and role.heard


class QuorumWatch:
    """One driver's. ``address`` tells where a voter listens."""

    def __init__(self, world: World, label: str, address: Callable[[int | None], tuple[str, int] | None]) -> None:
        self._world = world
        self._label = label
        self._address = address
        self._quorum: Quorum | None = None
        self._since_ms: int | None = None
        self._timer: Handle | None = None
        self._silent: dict[int, int] = {}
        self._unfit_ms: int | None = None

    def update(self, quorum: Quorum) -> None:
        """The state after an event."""
        self._quorum = quorum
        if is_led(quorum):
            self.close()
            self._since_ms = None
            self._silent.clear()  # who is not asked meanwhile is not silent
        elif self._since_ms is None:
            self._since_ms = self._now_ms()
            self._timer = self._world.tasks.call_later(WARN_MS, self._warn)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def answered(self, peer: int, raft_request: RaftRequest, answer: object) -> None:
        """A peer answered. Batches that begin below our end say that its log has other ones there, and always will."""
        self._silent.pop(peer, None)
        if (
            not isinstance(raft_request, RaftFetchRequest)
            or not isinstance(answer, RaftFetchResponse)
            or not answer.spans
        ):
            return
        if answer.spans[0].base >= raft_request.at.offset:
            return
        now_ms = self._now_ms()
        if self._unfit_ms is None or now_ms - self._unfit_ms >= WARN_MS:
            self._unfit_ms = now_ms
            log.warning(
                "[%s] the records of node %d, the leader of epoch %d, do not continue this log at %d: the two logs"
                " differ below, as after voters have lost their logs. Nothing is fetched. Stop this node, move its"
                " folder __cluster_metadata-0 away if the leader's metadata is the right one, and start it",
                *(self._label, peer, raft_request.epoch, raft_request.at.offset),
            )

    def failed(self, peer: int) -> None:
        """A peer gave no answer."""
        self._silent.setdefault(peer, self._now_ms())

    def _now_ms(self) -> int:
        return self._world.clock.monotonic_ms()

    def _warn(self) -> None:
        self._timer = None
        quorum, now_ms = self._quorum, self._now_ms()
        if quorum is None or quorum.closing or self._since_ms is None:
            return
        self._timer = self._world.tasks.call_later(WARN_MS, self._warn)
        ids = sorted(quorum.voters.ids or self._silent)  # without voters: those whom the settings name
        silent = [
            f"{self._named(id)} (for {(now_ms - self._silent[id]) // 1000} s)" for id in ids if id in self._silent
        ]
        known = f" {ids}" if quorum.voters.ids else ""
        what = "leads, and can commit nothing" if isinstance(quorum.role, Leader) else "has no leader"
        answers = f"no answer from {', '.join(silent)}" if silent else "all that were asked answer"
        lost = ""
        if quorum.lacks_committed:
            lost = (
                f"; its own log ends at {quorum.log.end}, and up to {quorum.committed_before} it was committed, so that"
                " it does not stand"
            )
        log.warning(
            "[%s] %s for %d s: more than half of the controllers%s must have the metadata and reach each other; %s%s",
            *(self._label, what, (now_ms - self._since_ms) // 1000, known, answers, lost),
        )

    def _named(self, id: int) -> str:
        address = self._address(id)
        if address is None:
            return f"{id}"
        host_port = f"{address[0]}:{address[1]}"
        return f"{id} at {host_port}" if id >= 0 else host_port  # settings name addresses, whose ids are not known yet


class FolderCheck:
    """Whether one node's metadata log still stands where it was opened: looked at now and then, off the loop.

    A log is written through open files, which go on when its folder was removed, or the file system below it unmounted:
    a voter went on voting, and counted for majorities, with records that no start would find, and nobody heard of it.
    It still does: of a folder that was removed at all controllers their memory and open files are the last copy.
    """

    def __init__(self, world: World, label: str, folder: str, metadata: Log) -> None:
        self._world = world
        self._label = label
        self._folder = folder
        self._metadata = metadata
        self._over = False
        self.lack = ""
        """What is wrong, once it is told; "" when nothing is."""

    def start(self) -> None:
        """Look from now on."""
        self._world.tasks.spawn(self._run(), "look at the metadata log's folder")

    def close(self) -> None:
        """Look no more."""
        self._over = True

    async def _run(self) -> None:
        missed: str | None = None
        told_ms: int | None = None
        while True:
            await sleep(self._world.tasks, CHECK_MS)
            if self._over:
                return
            active = self._metadata.active
            path = active.path() if active.size else ""  # before the first record there may be no file
            lack = await self._world.tasks.off_loop(partial(self._look, path), pools.probe(self._folder))
            if self._over:
                return
            if lack is None:
                if told_ms is not None:
                    log.info("[%s] the metadata log stands in %s again", self._label, self._folder)
                missed, told_ms, self.lack = None, None, ""
                continue
            now_ms = self._world.clock.monotonic_ms()
            # At the first look it may have been rolled or cut meanwhile.
            if missed == path and (told_ms is None or now_ms - told_ms >= WARN_MS):
                told_ms, self.lack = now_ms, lack
                log.error(
                    "[%s] the metadata log of this node would not be found by its next start: %s. Until it is brought"
                    " back it stands in memory and open files only. If it was removed, restart this node while another"
                    " controller leads: it fetches all of it anew. Do so one by one where several lost it, the leader"
                    " last",
                    self._label,
                    lack,
                )
            missed = path

    def _look(self, path: str) -> str | None:
        """What is wrong, if anything is. ``path``: of the file that is written; empty where there is none."""
        disk = self._world.disk
        try:
            if disk.is_replaced(f"{self._folder}/{LOCK}"):
                return f"another folder stands at {self._folder} than at the start"
            if path:
                disk.mtime_ms(path)
            else:
                disk.list_dir(self._metadata.folder.path)
        except OSError as error:
            gone = path or self._metadata.folder.path
            return f"{gone} is not there any more ({error.strerror})" if error.errno in GONE else None
        return None
