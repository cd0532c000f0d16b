"""pyiceberg's files on HDFS through delta-rs's client, for catalogs that name this class as their ``py-io-impl``.

Other places are reached as pyiceberg reaches them. Read next: hdfs.py, catalogs.py (which names it).
"""

from __future__ import annotations

from pyarrow import fs
from pyiceberg.io.pyarrow import PyArrowFileIO

from moldau.spark.tables.hdfs import files_at


class HdfsFileIO(PyArrowFileIO):
    """pyiceberg's own way to files, but for hdfs://. A file is read whole, since Arrow's threads read it."""

    def _initialize_hdfs_fs(self, scheme: str, netloc: str | None) -> fs.FileSystem:
        if scheme != "hdfs" or not netloc:
            return super()._initialize_hdfs_fs(scheme, netloc)
        return files_at(f"{scheme}://{netloc}/", {}, whole=True)
