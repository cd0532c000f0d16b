"""Which files below a table's folder are the table's own, though no version knows them: what a batch that was cut off,
or a merge that was, has left. Everything else there is somebody's, who may not have a copy, and nothing removes it.

Read next: files.py (who names them), delta.py and manifest.py (who removes what is old).
"""

from __future__ import annotations

import contextlib
import os
import re
import urllib.parse
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache

from moldau.spark.tables.stores import Store

_OF_A_BATCH = re.compile(r"(batch|merged)-\d{9,}-[0-9a-f]{12}")
"""The folder of an attempt (``folder_of``)."""
_MERGED = re.compile(r"part-.+\.parquet")
"""What delta-rs, and Spark's own Delta, call a file of a table."""
_CHANGES = "_change_data"
_AT_ONCE = 100


def own(store: Store, names: Iterable[str], partition_by: Sequence[str] = ()) -> Iterator[str]:
    """The names of files below the store that only a writer of the table gives."""
    for name in within(store, (one for one in names if is_written(one, partition_by))):
        if not (store.local and os.path.islink(store.at(name))):
            yield name


def within(store: Store, names: Iterable[str]) -> Iterator[str]:
    """The names of files that lie below the store: what a linked folder leads to lies elsewhere, and may be
    another table's, though this one's log says that it was replaced."""

    @cache
    def is_linked(folder: str) -> bool:
        here = os.path.realpath(store.base)
        return os.path.realpath(os.path.join(here, folder)) != os.path.normpath(os.path.join(here, folder))

    for name in names:
        if not (store.local and is_linked(name.rpartition("/")[0])):
            yield name


def is_written(name: str, partition_by: Sequence[str]) -> bool:
    """Whether a file is called as a batch's or a merge's is."""
    *folders, last = name.split("/")
    if folders and _OF_A_BATCH.fullmatch(folders[0]):
        return True
    if folders[:1] == [_CHANGES]:
        folders = folders[1:]
    columns = [urllib.parse.unquote(part.partition("=")[0]) for part in folders if "=" in part]
    return len(columns) == len(folders) and columns == list(partition_by) and _MERGED.fullmatch(last) is not None


def remove(store: Store, names: Sequence[str], used: Callable[[], Collection[str]]) -> int:
    """Remove files, and the folders of batches that are empty then; how many files these were. ``used`` has the files
    of the table as it is now, asked again and again: one that is taken back meanwhile has old ones again."""
    gone, now = 0, frozenset[str]()
    for at, name in enumerate(names):
        now = now if at % _AT_ONCE else frozenset(used())
        if name in now:
            continue
        store.delete(name)
        gone += 1
        folder = name.rpartition("/")[0]
        while store.local and _OF_A_BATCH.fullmatch(folder.partition("/")[0]):
            with contextlib.suppress(OSError):  # other files are in it
                os.rmdir(store.at(folder))
            folder = folder.rpartition("/")[0]
    return gone
