"""Laws of what a reader is given, whether the leader or a follower gives it (KIP-392): nothing that is not committed.

``laws/transactions.py`` compares it with what was decided, ``history/checks.py`` with what is there at the end.
Read next: plan_racks.py, load.py.
"""

from __future__ import annotations

import contextvars

from moldau.client.consumer import Chunk
from moldau.client.reading import READ_COMMITTED
from moldau.replication.roles import Role
from moldau.simulator.cluster_observer import ClusterObserver
from moldau.simulator.laws.data import DataLaws

FROM_A_FOLLOWER, BEHIND = "a follower gave records to a reader", "a follower gave what is behind its leader"


class ReadLaws:
    """``given`` at each answer that a reader is given records with."""

    def __init__(self, observer: ClusterObserver, data: DataLaws) -> None:
        self._observer, self._data = observer, data
        self._cluster = observer.cluster
        self.coverage: set[str] = set()

    def given(self, reader: str, chunk: Chunk, isolation: int) -> None:
        """S6 and S17: a reader is given nothing at or above the high watermark that it is told of, nor, where it reads
        what is committed, the last stable offset; and no replica that is still there tells of a watermark beyond the
        true one."""
        where, fetched = chunk.partition, chunk.fetched
        who = f"n{chunk.source} gives {reader} {where} up to {fetched.next_offset}"
        if fetched.next_offset > fetched.high_watermark:
            self._cluster.violated(f"S6: {who}, and says that its high watermark is {fetched.high_watermark}")
        elif isolation == READ_COMMITTED and fetched.next_offset > fetched.last_stable_offset:
            self._cluster.violated(f"S17: {who}, and says that its last stable offset is {fetched.last_stable_offset}")
        if where in self._cluster.unclean:
            return
        end = self._data.true_watermark(where)
        if fetched.high_watermark > end:  # since the last look
            contextvars.Context().run(self._data.look)  # outside the reader's process
            end = self._data.true_watermark(where)
        if fetched.high_watermark > end and self._is_replica(chunk):
            self._cluster.violated(
                f"S6: {who}, up to {fetched.high_watermark} as it says, and the highest watermark is {end}"
            )
        self._note(chunk, end)

    def _is_replica(self, chunk: Chunk) -> bool:
        """Whether who answered still has the partition: it was killed or moved away before the next look, otherwise."""
        of = self._observer.replicas(chunk.partition.topic).get(self._observer.key(chunk.partition), {})
        replica = of.get(chunk.source)
        return replica is not None and replica.machine.role in (Role.LEADER, Role.FOLLOWER)

    def _note(self, chunk: Chunk, end: int) -> None:
        state = self._observer.image.partition(*self._observer.key(chunk.partition))
        if state is not None and state.leader not in (chunk.source, -1):
            self.coverage.add(FROM_A_FOLLOWER)
            if chunk.fetched.high_watermark < end:
                self.coverage.add(BEHIND)
