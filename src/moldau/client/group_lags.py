"""How far consumer groups are behind the ends of the partitions that they read.

Read next: groups.py (what is committed), consumer_groups.py (who reads).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from moldau.client import groups
from moldau.client.client import Client, Refused
from moldau.client.consumer_groups import ConsumerGroup, GroupMember
from moldau.client.groups import Committed
from moldau.client.reading import EARLIEST, LATEST, list_offsets
from moldau.model import Code, TopicPartition
from moldau.model.named import NamedTuple

OFFSETS_TIMEOUT_MS = 20_000
"""How long offsets of a partition without a leader that answers are asked for. A broker that is silent is replaced
within its session, 9 s as Kafka has it, and by another controller if need be."""


class GroupLag(NamedTuple):
    """How far a group is in one partition; None where it is not known, or nothing is committed."""

    partition: TopicPartition
    committed: Committed | None
    start: int | None
    end: int | None
    member: GroupMember | None

    @property
    def lag(self) -> int | None:
        """Records that are left to read; those that are deleted already do not count. Below zero when it was committed
        beyond the end, as of another topic of that name: its reader may wait for ever."""
        if self.committed is None or self.end is None:
            return None
        return self.end - max(self.committed.offset, self.start or 0)


async def committed(client: Client, group_id: str) -> dict[TopicPartition, Committed]:
    """What a group committed, nothing when there is no such group. Refused when it may not be read."""
    code, found = await groups.committed(client, group_id)
    if code not in (Code.NONE, Code.GROUP_ID_NOT_FOUND):
        raise Refused(code, f"committed offsets of group {group_id!r}")
    return {partition: one for partition, one in found.items() if one.offset >= 0}


async def lags(client: Client, group: ConsumerGroup) -> list[GroupLag]:
    """Where the group stands in each partition that it committed or reads now, in order."""
    positions = await committed(client, group.group_id)
    readers = {partition: one for one in group.members for partition in one.assignment}
    wanted = sorted({*positions, *readers})
    starts, ends = await bounds(client, wanted)
    return [GroupLag(one, positions.get(one), starts.get(one), ends.get(one), readers.get(one)) for one in wanted]


async def bounds(
    client: Client, partitions: Collection[TopicPartition], timeout_ms: int | None = None
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """The first and the end offsets of partitions; without those that cannot be told in time. Whose first offset cannot
    be told is not asked for its end: it would take as long again."""
    if not partitions:
        return {}, {}
    await client.know(sorted({one.topic for one in partitions}))
    known = client.view.topics
    there = [one for one in partitions if one.topic in known and one.partition in known[one.topic].partitions]
    starts = await offsets_at(client, dict.fromkeys(there, EARLIEST), timeout_ms)
    return starts, await offsets_at(client, dict.fromkeys(starts, LATEST), timeout_ms)


async def offsets_since(
    client: Client,
    moment_ms: int,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    timeout_ms: int | None = None,
) -> dict[TopicPartition, int]:
    """Where partitions with these bounds have the first record that is no older than a time (ms since 1970): the end
    where all are older, the start for a time before 1970, which ListOffsets takes for a place or not at all. Without
    those that cannot be told: for them nobody may take the end."""
    if moment_ms < 0:
        return dict(starts)
    wait_ms = OFFSETS_TIMEOUT_MS if timeout_ms is None else timeout_ms
    found = await list_offsets(client, dict.fromkeys(starts, moment_ms), timeout_ms=wait_ms) if starts else {}
    told = {one: offset.offset for one, offset in found.items() if offset.code is Code.NONE}
    return {one: offset if offset >= 0 else ends[one] for one, offset in told.items()}


async def offsets_at(
    client: Client, moments: Mapping[TopicPartition, int], timeout_ms: int | None = None
) -> dict[TopicPartition, int]:
    """The offsets of partitions at moments, as ``list_offsets`` has them; without those that cannot be told."""
    wait_ms = OFFSETS_TIMEOUT_MS if timeout_ms is None else timeout_ms
    found = await list_offsets(client, moments, timeout_ms=wait_ms) if moments else {}
    return {one: offset.offset for one, offset in found.items() if offset.code is Code.NONE and offset.offset >= 0}
