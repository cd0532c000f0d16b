"""The options of ``format("moldau")`` that a pipeline's source stands for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from moldau.client.client import PATIENT_MS
from moldau.pipeline.spec import Pipeline

if TYPE_CHECKING:
    from moldau.spark.options import Options

API_TIMEOUT = "default.api.timeout.ms"
PIN = "checkpoint/initial-offsets.json"
"""Where the first positions of a start that moves are kept, below the pipeline's folder."""


def source_options(pipeline: Pipeline, cluster: str, *, start: str | None = None) -> dict[str, str]:
    """The options for a stream; ``start`` is used in place of the file's where a reset has said so."""
    source = pipeline.source
    found = {
        "kafka.bootstrap.servers": cluster,
        "startingOffsets": source.start if start is None else start,
        "onDataLoss": source.on_loss,
        "includeHeaders": "true",
        "initialOffsetsLocation": f"{pipeline.folder}/{PIN}",
    }
    if source.pattern is not None:
        found["subscribePattern"] = source.pattern
    else:
        found["subscribe"] = ",".join(source.topics)
    if source.max_records is not None:
        found["maxOffsetsPerTrigger"] = str(source.max_records)
    if source.max_bytes is not None:
        found["maxBytesPerTrigger"] = source.max_bytes
    return {**found, **source.options}


def asked_once(options: Options) -> Options:
    """The same options with the patience of who looks on: nothing is asked again, and 10 s are enough."""
    patience_ms = min(options.numbers.get(API_TIMEOUT, PATIENT_MS), PATIENT_MS)
    return replace(options, fetch_retries=0, kafka={**options.kafka, API_TIMEOUT: str(patience_ms)})
