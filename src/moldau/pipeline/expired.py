"""What expired while a batch read it, under ``on_loss: skip``: a line of the books says so.

No word of it comes back from the tasks that read, and the source tells of it with the batch that follows (see
``spark/readers.py``): of the last batch of a run nobody would, and what is missing would look like offsets that have no
records, as in compacted topics. So a batch that read fewer records than it has offsets asks where the logs begin now.

Read next: audit.py (what ``status`` makes of it).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from moldau.client.client import ClientOptions
from moldau.model import Code, TopicPartition
from moldau.pipeline.audit import ranges_of
from moldau.pipeline.books import BookLine
from moldau.spark.losses import SKIPPED_KEY, Loss, LossKind, mark, marked

_LOOK_MS = 5_000

Begins = Callable[[Iterable[TopicPartition]], Mapping[TopicPartition, int]]


def with_expired(line: BookLine, begins: Begins) -> BookLine:
    """The line of a batch, which says what of it may have expired before it was read. ``begins``: where logs begin."""
    ranges = ranges_of(line)
    if ranges is None or not line.end or line.read >= sum(end - start for start, end in ranges.values()):
        return line
    now = begins(ranges)
    found = [
        Loss(LossKind.EXPIRED_IN_BATCH, source, start, min(now[source], end))
        for source, (start, end) in sorted(ranges.items())
        if start < now.get(source, 0) and start < end
    ]
    if not found:
        return line
    end = json.loads(line.end[0])
    return replace(line, end=[json.dumps({**end, SKIPPED_KEY: mark([*marked(line.end[0]), *found])}), *line.end[1:]])


def log_starts(cluster: str, sources: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
    """Where the logs begin now, as far as the cluster says it; nothing of one that does not answer."""
    from moldau.client.reading import EARLIEST
    from moldau.client.sync import Cluster, Refused

    try:
        with Cluster(cluster, options=ClientOptions(api_timeout_ms=_LOOK_MS)) as there:
            found = there.offsets(dict.fromkeys(sources, EARLIEST))
    except (OSError, Refused, ValueError):
        return {}
    return {source: one.offset for source, one in found.items() if one.code is Code.NONE}
