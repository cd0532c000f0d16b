"""Folders where tables and checkpoints lie: local, HDFS, S3 and what else pyarrow reaches, by one small interface.

``put_if_absent`` is the one operation that decides between two writers: a hard link on POSIX folders, ``If-None-Match``
on S3 (which needs boto3), a rename that replaces nothing on HDFS (which needs hdfs-native), a refusal elsewhere. Does
not know tables. Read next: hdfs.py, manifest.py (Parquet), delta.py.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from moldau.model.protocol import Protocol
from moldau.spark.tables.ledger import TableError

if TYPE_CHECKING:
    from pyarrow import fs

_S3 = ("s3", "s3a", "s3n")


class S3Client(Protocol):
    """What is used of boto3's client, which has no types."""

    def put_object(self, *, Bucket: str, Key: str, Body: bytes, IfNoneMatch: str) -> object: ...


class Store:
    """A folder. ``uri`` is how Spark and delta-rs name it; ``options`` are delta-rs's storage options."""

    def __init__(self, uri: str, filesystem: fs.FileSystem, base: str, options: Mapping[str, str]) -> None:
        self.uri, self.filesystem, self.base, self.options = uri, filesystem, base, dict(options)

    def __str__(self) -> str:
        return self.uri

    @property
    def local(self) -> bool:
        """Whether it is a path of this machine (which others may mount)."""
        return "://" not in self.uri

    @property
    def s3(self) -> bool:
        return urlsplit(self.uri).scheme in _S3

    @property
    def hdfs(self) -> bool:
        return urlsplit(self.uri).scheme == "hdfs"

    def at(self, name: str) -> str:
        """The path of a file, as the filesystem wants it."""
        return "/".join(filter(None, (self.base, name)))

    def for_threads(self) -> fs.FileSystem:
        """The folder as a filesystem whose files Arrow's own threads may read: by paths that begin in the folder."""
        from pyarrow import fs

        if self.hdfs:
            from moldau.spark.tables.hdfs import files_at

            return files_at(self.uri, self.options, whole=True)
        return fs.SubTreeFileSystem(self.base, self.filesystem)

    def read(self, name: str) -> bytes | None:
        """The file's content, None when there is none."""
        try:
            with self.filesystem.open_input_stream(self.at(name)) as file:
                return bytes(file.read())
        except FileNotFoundError:
            return None

    def size(self, name: str) -> int | None:
        """The file's size in bytes, None when there is none."""
        found = self.filesystem.get_file_info(self.at(name))
        return None if found.type.name == "NotFound" else int(found.size)

    def written_ms(self, name: str, otherwise: int) -> int:
        """When the file was written, ``otherwise`` where there is none, or nobody knows."""
        found: fs.FileInfo = self.filesystem.get_file_info(self.at(name))
        return otherwise if found.mtime_ns is None else int(found.mtime_ns) // 1_000_000

    def names(self, folder: str, suffix: str = "") -> list[str]:
        """The files below a folder, relative to the store, sorted; empty when there is no such folder."""
        from pyarrow import fs

        chosen = fs.FileSelector(self.at(folder), recursive=True, allow_not_found=True)
        start = len(self.base) + 1 if self.base else 0
        return sorted(
            each.path[start:]
            for each in self.filesystem.get_file_info(chosen)
            if each.type == fs.FileType.File and each.path.endswith(suffix)
        )

    def delete(self, name: str) -> None:
        """Remove a file that may be gone already."""
        with contextlib.suppress(FileNotFoundError):
            self.filesystem.delete_file(self.at(name))

    def write(self, name: str, content: bytes) -> None:
        """Write a file that nobody else writes."""
        self.make_folder(os.path.dirname(name))
        with self.named(name), self.filesystem.open_output_stream(self.at(name)) as file:
            file.write(content)

    def replace(self, name: str, content: bytes) -> None:
        """Write a file anew: a reader sees the old one or the new one, never half."""
        if not self.local:
            self.write(name, content)
            return
        fresh = f"{name}.{os.getpid()}"
        self.write(fresh, content)
        with self.named(fresh), open(self.at(fresh), "rb") as file:
            os.fsync(file.fileno())  # a power cut is not to leave an empty file under the name
        os.replace(self.at(fresh), self.at(name))

    def make_folder(self, name: str = "") -> None:
        """See that there is such a folder; object stores need none."""
        if not self.s3:
            with self.named(name):
                self.filesystem.create_dir(self.at(name), recursive=True)

    def put_if_absent(self, name: str, content: bytes) -> bool:
        """Write the file whole, unless there is one already; whether it is ours.

        A client of a store, or of NFS, sends a write again whose answer was lost, and is then told that there is a
        file: one that holds the very bytes is ours, whoever said otherwise.
        """
        if self.local:
            with self.named(name):
                return _link(Path(self.at(name)), content)
        if self.s3:
            return self._put_s3(name, content) or self.read(name) == content
        if self.hdfs:
            return self._put_hdfs(name, content) or self.read(name) == content
        raise TableError(f"{self.uri}: a file cannot be written only if it is absent there; use Delta or Iceberg")

    @contextlib.contextmanager
    def named(self, name: str) -> Iterator[None]:
        """Have errors of the machine's own disk name the file: Arrow's have its path in their text at best, and whoever
        shows an OSError without a file takes it for one of standard output or of a connection."""
        try:
            yield
        except OSError as error:
            if not self.local or error.filename is not None or not error.errno:
                raise
            raise OSError(error.errno, os.strerror(error.errno), self.at(name)) from error

    def _put_s3(self, name: str, content: bytes) -> bool:
        client = self._s3_client()
        bucket, _, key = self.at(name).partition("/")
        try:
            client.put_object(Bucket=bucket, Key=key, Body=content, IfNoneMatch="*")
        except Exception as error:
            code = getattr(error, "response", {}).get("Error", {}).get("Code")
            if code in ("PreconditionFailed", "ConditionalRequestConflict"):
                return False
            raise
        return True

    def _put_hdfs(self, name: str, content: bytes) -> bool:
        try:
            from hdfs_native import Client
        except ImportError as error:
            raise TableError(
                f"{self.uri}: Parquet with a manifest on HDFS needs hdfs-native: pip install 'moldau[hdfs]'; "
                "Delta and Iceberg do not"
            ) from error
        fresh = f"{name}.{uuid.uuid4().hex}.tmp"
        self.write(fresh, content)
        parts = urlsplit(self.uri)
        base, client = parts.path.rstrip("/"), Client(f"hdfs://{parts.netloc}")
        try:
            client.rename(f"{base}/{fresh}", f"{base}/{name}")
        except FileExistsError:
            self.delete(fresh)
            return False
        return True

    def _s3_client(self) -> S3Client:
        try:
            import boto3
        except ImportError as error:
            raise TableError(
                f"{self.uri}: Parquet with a manifest on S3 needs boto3: pip install 'moldau[s3]'; "
                "Delta and Iceberg do not"
            ) from error
        given = self.options
        client: S3Client = boto3.client(
            "s3",
            endpoint_url=given.get("AWS_ENDPOINT_URL"),
            aws_access_key_id=given.get("AWS_ACCESS_KEY_ID"),
            aws_secret_access_key=given.get("AWS_SECRET_ACCESS_KEY"),
            aws_session_token=given.get("AWS_SESSION_TOKEN"),
            region_name=given.get("AWS_REGION"),
        )
        return client


def open_store(place: str | Path, options: Mapping[str, str] | None = None) -> Store:
    """The folder at a path or URI. ``options`` are those of delta-rs (AWS_ENDPOINT_URL, AWS_REGION, ...)."""
    text = str(place)
    if text.startswith("file:"):
        text = "/" + text.removeprefix("file:").lstrip("/")
    from pyarrow import fs

    given = dict(options or {})
    parts = urlsplit(text)
    if "://" not in text:
        path = str(Path(text).absolute())
        return Store(path, fs.LocalFileSystem(), path, given)
    if parts.scheme in _S3:
        endpoint = urlsplit(given.get("AWS_ENDPOINT_URL", ""))
        filesystem = fs.S3FileSystem(
            access_key=given.get("AWS_ACCESS_KEY_ID"),
            secret_key=given.get("AWS_SECRET_ACCESS_KEY"),
            session_token=given.get("AWS_SESSION_TOKEN"),
            region=given.get("AWS_REGION"),
            endpoint_override=endpoint.netloc or None,
            scheme=endpoint.scheme or None,
        )
        return Store(text.rstrip("/"), filesystem, f"{parts.netloc}{parts.path}".rstrip("/"), given)
    if parts.scheme == "hdfs":
        from moldau.spark.tables.hdfs import files_at

        return Store(text.rstrip("/"), files_at(text.rstrip("/"), given), "", given)
    try:
        filesystem, base = fs.FileSystem.from_uri(text)
    except Exception as error:
        raise TableError(f"{text}: this folder cannot be reached: {error}") from error
    return Store(text.rstrip("/"), filesystem, base.rstrip("/"), given)


def _link(path: Path, content: bytes) -> bool:
    """Write a local file whole or not at all, on disk when this returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(name, path)
        except FileExistsError:
            if not os.path.samefile(name, path):  # NFS may make the link, and say the second time that it is there
                return False
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return True
    finally:
        os.unlink(name)
