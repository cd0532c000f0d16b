"""Whether Spark will be able to read a checkpoint: its own words for a damaged one name neither the file nor a way on.

Source: Spark's StreamMetadata, HDFSMetadataLog, OffsetSeqLog and CommitLog. Read next: folder.py.
"""

from __future__ import annotations

import json
import re

from moldau.model.counted import counted
from moldau.pipeline.folder import CHECKPOINT
from moldau.pipeline.said import RESET
from moldau.spark.tables.checkpoint import lines_of
from moldau.spark.tables.stores import Store

_LINES = {"offsets": 3, "commits": 2}
"""How many lines a file has at least: a version, Spark's own notes, and of offsets one for the source."""
_NONE = "-"
"""Where a source has no offset."""


def damage(store: Store) -> str | None:
    """What is wrong with the first file of the checkpoint that cannot be read, and what to do; None where all can."""
    wrong = _metadata(store.read(f"{CHECKPOINT}/metadata"), is_begun=bool(store.names(f"{CHECKPOINT}/offsets")))
    name = "metadata"
    for folder, newest in (("offsets", 2), ("commits", 1)):  # those that Spark reads when it begins
        if wrong is None:
            name, wrong = _first_wrong(store, folder, newest)
    if wrong is None:
        return None
    return f"{store.uri}/{CHECKPOINT}/{name} is damaged ({wrong}): restore it, or {RESET}"


def query_of(store: Store) -> str | None:
    """The query of the checkpoint, None where there is none that can be read."""
    content = store.read(f"{CHECKPOINT}/metadata")
    try:
        return None if content is None else str(json.loads(content)["id"])
    except (ValueError, TypeError, KeyError):
        return None


def _metadata(content: bytes | None, *, is_begun: bool) -> str | None:
    if content is None:
        return "it is gone, and there are batches" if is_begun else None
    try:
        if isinstance(json.loads(content)["id"], str):
            return None
    except (ValueError, TypeError, KeyError):
        pass
    return "it does not name a query"


def _first_wrong(store: Store, folder: str, newest: int) -> tuple[str, str | None]:
    """The name of the first file that is wrong among the newest, and why it is."""
    named = [name.rpartition("/")[2] for name in store.names(f"{CHECKPOINT}/{folder}")]
    numbers = sorted((int(name) for name in named if name.isdecimal()), reverse=True)
    for number in numbers[:newest]:
        wrong = _numbered(store.read(f"{CHECKPOINT}/{folder}/{number}") or b"", _LINES[folder])
        if wrong is not None:
            return f"{folder}/{number}", wrong
    return folder, None


def _numbered(content: bytes, least: int) -> str | None:
    """Why a file is none of Spark's, None where it is one."""
    if not content.strip():
        return "it is empty"
    try:
        version, *parts = lines_of(content)
    except UnicodeDecodeError:
        return "it is no text"
    if not re.fullmatch(r"v\d+", version):
        return "it does not begin with a version"
    if len(parts) + 1 < least:
        return f"it has {len(parts) + 1} of {counted(least, 'line')}"
    for part in parts:
        try:
            if part != _NONE and not isinstance(json.loads(part), dict):
                return "it holds something else than JSON objects"
        except ValueError:
            return "it holds something else than JSON objects"
    return None
