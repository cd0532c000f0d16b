"""Pins a stream's first position outside the process, so that a first batch that failed is read again as planned.

Spark keeps a batch's end in its checkpoint but asks the source afresh where the first batch began, and tells a Python
source no checkpoint path. A start that moves ("latest") would then skip what arrived in between. The file is written
once and atomically: the first writer wins, and everybody reads what that one wrote. Read next: docs/decisions.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from moldau.spark.offsets import Positions, decode, encode


class PinError(RuntimeError):
    """The file of first positions cannot be used; the message names it and says why."""


def pinned(location: str, subscription: str, ask: Callable[[], Positions]) -> Positions:
    """The positions in the file ``location``; when there is none, those that ``ask`` gives, written there first."""
    path = Path(location)
    if not path.exists():
        _write_once(path, {"version": 1, "subscription": subscription, "offsets": encode(ask())})
    try:
        found = json.loads(path.read_text())
        owner, positions = found["subscription"], decode(found["offsets"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PinError(f"initialOffsetsLocation {location} does not hold first positions: {error}") from error
    if owner != subscription:
        raise PinError(
            f"initialOffsetsLocation {location} belongs to another stream ({owner}, this one reads {subscription}): "
            "give every stream its own file, best inside its checkpoint folder"
        )
    return positions


def _write_once(path: Path, content: object) -> None:
    """Write the file whole or not at all; an existing one stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(name, path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    finally:
        os.unlink(name)
