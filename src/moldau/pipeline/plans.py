"""Plans of replays and backfills on disk: ``FOLDER/N.json``, beside ``N.done`` once carried out, or ``N.abandoned``.

Read next: replays.py, backfill.py.
"""

from __future__ import annotations

import re
import uuid
from typing import TypeVar

from moldau.pipeline.folder import BrokenPipelineFile
from moldau.pipeline.typed import read_json
from moldau.spark.tables.stores import Store

P = TypeVar("P")
_NAME = re.compile(r"[a-z]+-[0-9a-f-]{36}")


def plans(store: Store, folder: str, kind: type[P], what: str) -> list[tuple[P, bool, bool]]:
    """Each plan in a folder, whether it was carried out, and whether it was given up. BrokenPipelineFile names a file
    that is no plan; ``what`` says of whom, and what removing it comes to."""
    found = []
    for name in store.names(folder, ".json"):
        try:
            plan = read_json(kind, store.read(name) or b"")
        except ValueError as error:
            raise BrokenPipelineFile(f"{store.uri}/{name} is no plan of {what.format(error=error)}") from None
        done, abandoned = (store.size(name.replace(".json", f".{end}")) is not None for end in ("done", "abandoned"))
        found.append((plan, done, abandoned))
    return found


def name_of(store: Store, folder: str, kind: str) -> str:
    """What ledgers and marks call the plans of this folder, made where there is no name yet: numbers begin anew in
    another folder, and must not be taken for these. BrokenPipelineFile where the file holds no such name."""
    name = f"{folder}/id"
    store.put_if_absent(name, f"{kind}-{uuid.uuid4()}".encode())
    found = (store.read(name) or b"").decode(errors="replace")
    if not _NAME.fullmatch(found) or not found.startswith(f"{kind}-"):
        raise BrokenPipelineFile(
            f"{store.uri}/{name} is no name of {folder}; restore it, or remove it where none of them was cut off: the"
            " next get another name"
        )
    return found


def next_number(store: Store, folder: str) -> int:
    """The number of the next plan in a folder: more than that of any file there, also of a plan that is gone."""
    numbers = [name.rpartition("/")[2].partition(".")[0] for name in store.names(folder)]
    return max((int(one) for one in numbers if one.isdecimal()), default=-1) + 1
