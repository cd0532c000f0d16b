"""The checkpoint of a pipeline that reads a table: its id, and what each batch covers, written before it is read.

It lies where Spark's would, so that a reset sets it aside in the same way: ``checkpoint/metadata`` has the id, and
``checkpoint/offsets/N`` batch N. A batch that was planned and is not in the books is run again as it was planned.
``checkpoint/latest`` is what ``latest`` came to, so that what is committed before the first batch is not left out.
"""

from __future__ import annotations

import json
import uuid
from typing import NamedTuple

import pyarrow as pa

from moldau.pipeline.feed.changes import Position, schema_of_text, schema_to_text
from moldau.pipeline.folder import CHECKPOINT, BrokenPipelineFile, PipelineFolder


class CheckpointedBatch(NamedTuple):
    """A batch in the checkpoint: its number, from where to where it goes, and its columns."""

    number: int
    start: Position
    end: Position
    schema: pa.Schema


class FeedCheckpoint:
    """The checkpoint in a pipeline's folder."""

    def __init__(self, folder: PipelineFolder) -> None:
        self._store = folder.store

    def query(self) -> str:
        """The id of the checkpoint, which marks and ledgers know; made when there is none."""
        name = f"{CHECKPOINT}/metadata"
        self._store.put_if_absent(name, json.dumps({"id": str(uuid.uuid4())}).encode())
        try:
            return str(json.loads(self._store.read(name) or b"")["id"])
        except (ValueError, KeyError, TypeError):
            raise BrokenPipelineFile(f"{self._store.uri}/{name} does not hold an id; reset the pipeline") from None

    def latest(self) -> Position | None:
        """What ``latest`` came to when it was first asked for, None before."""
        name = f"{CHECKPOINT}/latest"
        found = self._store.read(name)
        try:
            return None if found is None else Position.from_json(found.decode())
        except (ValueError, TypeError):
            raise BrokenPipelineFile(
                f"{self._store.uri}/{name} does not say where to begin; reset the pipeline"
            ) from None

    def keep_latest(self, position: Position) -> None:
        """Let ``latest`` be this position from now on, unless it is another one already."""
        self._store.put_if_absent(f"{CHECKPOINT}/latest", position.to_json().encode())

    def newest(self) -> CheckpointedBatch | None:
        """The batch that was planned last, None before the first."""
        numbers = [int(name.rsplit("/", 1)[-1]) for name in self._store.names(f"{CHECKPOINT}/offsets")
                   if name.rsplit("/", 1)[-1].isdecimal()]  # fmt: skip
        return self.read(max(numbers)) if numbers else None

    def read(self, number: int) -> CheckpointedBatch:
        """A planned batch; BrokenPipelineFile when its file holds something else."""
        name = f"{CHECKPOINT}/offsets/{number}"
        try:
            found = json.loads(self._store.read(name) or b"")
            start, end = (Position.from_json(found[which]) for which in ("start", "end"))
            return CheckpointedBatch(number, start, end, schema_of_text(found["schema"]))
        except (ValueError, KeyError, TypeError, pa.ArrowException):
            raise BrokenPipelineFile(
                f"{self._store.uri}/{name} does not say what a batch covers; reset the pipeline"
            ) from None

    def add(self, noted: CheckpointedBatch) -> bool:
        """Note a batch before it is read; False when another process has noted one of this number."""
        content = {"start": noted.start.to_json(), "end": noted.end.to_json(), "schema": schema_to_text(noted.schema)}
        return self._store.put_if_absent(f"{CHECKPOINT}/offsets/{noted.number}", json.dumps(content).encode())
