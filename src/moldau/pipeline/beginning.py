"""Where a new checkpoint begins, where a reset or a backfill has said it, with the partitions that came since.

Read next: folder.py (who keeps it), running.py (whose source takes it: it wants each partition by name).
"""

from __future__ import annotations

import json

from moldau.pipeline.folder import PipelineFolder
from moldau.pipeline.source_options import asked_once, source_options
from moldau.pipeline.spec import Pipeline
from moldau.spark.start import EARLIEST


def begins_at(pipeline: Pipeline, folder: PipelineFolder, cluster: str) -> str | None:
    """What the folder says of where to begin, None where it says nothing. A partition that it does not name is new, and
    read from its first record; where nobody tells which there are, the source says so in a moment."""
    from moldau.spark.client_feed import open_feed
    from moldau.spark.feed import FeedUnreachable
    from moldau.spark.options import parse
    from moldau.spark.planner import Planner

    start = folder.start()
    if start is None or not start.startswith("{"):  # a word, as a program may give, names no partition
        return start
    named = json.loads(start)
    options = parse(source_options(pipeline, cluster, start="earliest"), "stream")
    planner = Planner(asked_once(options), open_feed)
    try:
        there = planner.partitions().offsets
    except (OSError, FeedUnreachable):
        return start
    finally:
        planner.line.close()
    for one in sorted(there):
        named.setdefault(one.topic, {}).setdefault(str(one.partition), EARLIEST)
    return json.dumps(named)
