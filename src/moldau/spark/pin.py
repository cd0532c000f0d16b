"""Pins a stream's first position outside the process, so that a first batch that failed is read again as planned.

Spark keeps a batch's end in its checkpoint but asks the source afresh where the first batch began, and tells a Python
source no checkpoint path. A start that moves ("latest") would then skip what arrived in between. The place is written
once and atomically: the first writer wins, and everybody reads what that one wrote. Read next: docs/decisions.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TextIO

from moldau.model.protocol import Protocol
from moldau.spark.offsets import Positions, decode, encode

NO_SETTINGS: Mapping[str, str] = {}


class PinError(RuntimeError):
    """The file of first positions cannot be used; the message names it and says why."""


class WriteOnce(Protocol):
    """Holds a text that is written once, by the first of all who try, wherever they run."""

    def read(self) -> str | None: ...

    def write_once(self, text: str) -> None: ...


def pinned(
    location: str, subscription: str, ask: Callable[[], Positions], settings: Mapping[str, str] = NO_SETTINGS
) -> Positions:  # fmt: skip
    """The positions kept at ``location``; when there are none, those that ``ask`` gives, written there first.

    ``settings`` are those of a store that is no file system (addresses, credentials).
    """
    place = _place(location, settings)
    text = place.read()
    if text is None:
        content = {"version": 1, "subscription": subscription, "offsets": encode(ask())}
        place.write_once(json.dumps(content))
        text = place.read()
    owner, positions = _read(location, text or "")
    if owner != subscription:
        raise PinError(
            f"initialOffsetsLocation {location} belongs to another stream ({owner}, this one reads {subscription}): "
            "give every stream its own file, best inside its checkpoint folder"
        )
    return positions


def kept_at(location: str, settings: Mapping[str, str] = NO_SETTINGS) -> Positions | None:
    """The positions kept at ``location``, of whatever stream; None where there are none."""
    text = _place(location, settings).read()
    return None if text is None else _read(location, text)[1]


def _read(location: str, text: str) -> tuple[str, Positions]:
    try:
        found = json.loads(text)
        return found["subscription"], decode(found["offsets"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PinError(f"initialOffsetsLocation {location} does not hold first positions: {error}") from error


def _place(location: str, settings: Mapping[str, str]) -> WriteOnce:
    return StorePlace(location, settings) if is_store(location) else FilePlace(Path(location))


def is_store(location: str) -> bool:
    """Whether a location is not on a file system of this machine (s3://, hdfs://, abfss://, gs://, ...)."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", location) is not None


class FilePlace:
    """A file, written whole or not at all by a hard link; where a file system has none, as it is created."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> str | None:
        try:
            return self._path.read_text()
        except FileNotFoundError:
            return None

    def write_once(self, text: str) -> None:
        path = self._path
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w") as file:
                _put(file, text)
            try:
                os.link(name, path)
            except FileExistsError:
                return
            except OSError:  # no hard links on this file system
                with contextlib.suppress(FileExistsError), path.open("x") as file:
                    _put(file, text)
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        finally:
            os.unlink(name)


def _put(file: TextIO, text: str) -> None:
    file.write(text)
    file.flush()
    os.fsync(file.fileno())


class StorePlace:
    """A store without hard links: the first commit of a small Delta table there, of which a store admits only one.

    delta-rs speaks to S3, HDFS, Azure and Google's stores, and makes that commit by whatever each has for it. The text
    is the table's description as of version 0; credentials come from the environment or from ``settings``.
    """

    def __init__(self, location: str, settings: Mapping[str, str] = NO_SETTINGS) -> None:
        self._location, self._settings = location, dict(settings)

    def read(self) -> str | None:
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        try:
            found = DeltaTable(self._location, version=0, storage_options=self._settings)
        except TableNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise PinError(f"initialOffsetsLocation {self._location} cannot be read: {error}") from error
        return str(found.metadata().description)

    def write_once(self, text: str) -> None:
        from deltalake import DeltaTable, Field, Schema
        from deltalake.exceptions import DeltaError
        from deltalake.schema import PrimitiveType

        schema = Schema([Field("offsets", PrimitiveType("string"))])
        try:
            DeltaTable.create(
                self._location, schema=schema, mode="error", name="initial offsets", description=text,
                storage_options=self._settings,
            )  # fmt: skip
        except (DeltaError, OSError, ValueError) as error:
            if self.read() is None:  # nobody was faster
                raise PinError(f"initialOffsetsLocation {self._location} cannot be written: {error}") from error
