"""Folders on HDFS as pyarrow wants them, through delta-rs's own client: neither a jar nor Hadoop's native library.

pyarrow's client needs ``libhdfs`` and a JVM in each process; delta-rs, which every table needs, has one in Rust, which
reads ``HADOOP_CONF_DIR``. Read next: stores.py, hdfs_iceberg.py.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs

if TYPE_CHECKING:
    from typing_extensions import Buffer


class HdfsFiles(DeltaStorageHandler):
    """The files below a folder."""

    def open_output_stream(self, path: str, metadata: Mapping[str, str] | None = None) -> pa.PythonFile:
        """A stream for a new file, or for an old one anew."""
        return pa.PythonFile(_Sink(self._handler.open_output_stream(path, None)), mode="w")


class WholeFiles(HdfsFiles):
    """The same, each file read whole before Arrow's threads have it.

    A file of Python's that such a thread lets go of while the interpreter ends aborts the process.
    """

    def open_input_file(self, path: str) -> pa.NativeFile:
        """The file's content."""
        with super().open_input_file(path) as file:
            return pa.BufferReader(file.read())


class _Sink(io.RawIOBase):
    """delta-rs takes bytes alone, and Arrow gives its own buffers."""

    def __init__(self, inner: Any) -> None:  # Any: delta-rs's stub of a written file lacks close
        self._inner = inner

    def write(self, data: Buffer) -> int:
        content = bytes(data)
        if content:
            self._inner.write(content)
        return len(content)

    def writable(self) -> bool:
        return True

    def flush(self) -> None:
        """Nothing is kept back here."""

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._inner.close()


def files_at(uri: str, options: Mapping[str, str], *, whole: bool = False) -> fs.FileSystem:
    """The folder at a URI, its files read whole or as they are asked for."""
    return fs.PyFileSystem((WholeFiles if whole else HdfsFiles)(uri, dict(options)))
