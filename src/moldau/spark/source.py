"""The Spark data source ``moldau``: topics as batch and streaming DataFrames, without a jar.

Kept light, since Spark imports it whenever it looks for a source: what reads and writes is imported when it does.
Read next: options.py (what may be asked), readers.py (who plans), tasks.py (who reads), sink.py.
"""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow as _of_pyspark_4_2  # noqa: F401

from moldau.spark import rows

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType

    from moldau.spark.options import Options

DEFAULTS = "MOLDAU_SPARK_DEFAULTS"
"""The environment variable with the name of the file that says which cluster the sources of this JVM read."""


class MoldauSource(DataSource):
    """``format("moldau")``: any Kafka-compatible cluster, read with Moldau's own client.

    Without ``kafka.bootstrap.servers`` it is the cluster of ``moldau.spark.session``, else of MOLDAU_BOOTSTRAP, as on
    the command line.
    """

    @classmethod
    def name(cls) -> str:
        return "moldau"

    def schema(self) -> StructType:
        """The columns; OptionError at ``load()`` when the options can be meant for no read at all."""
        from moldau.spark import options

        return rows.schema(options.check(self._given()))

    def reader(self, schema: StructType) -> DataSourceReader:
        from moldau.spark.options import parse
        from moldau.spark.readers import BatchReader

        options = parse(self._given(), "batch")
        rows.check_schema(schema, options.columns)
        return BatchReader(_warned(options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from moldau.spark.given import OptionError
        from moldau.spark.options import parse
        from moldau.spark.readers import RefusedReader, StreamReader

        try:
            options = parse(self._given(), "stream")
            rows.check_schema(schema, options.columns)
            return StreamReader(_warned(options))
        except OptionError as error:
            return RefusedReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from moldau.spark import sink
        from moldau.spark.given import OptionError

        if overwrite:
            raise OptionError("mode", "overwrite", "a topic is only appended to: use mode append")
        options = sink.parse(self._given())
        sink.check_columns(schema, options)
        return sink.BatchWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from moldau.spark import sink

        options = sink.parse(self._given())
        sink.check_columns(schema, options)
        return sink.StreamWriter(options)

    def _given(self) -> dict[str, str]:
        given = dict(self.options)
        cluster = _default_cluster()
        if cluster and not any(name.lower() == "kafka.bootstrap.servers" for name in given):
            given["kafka.bootstrap.servers"] = cluster
        return given


def _default_cluster() -> str | None:
    """What the newest ``moldau.spark.session`` of this JVM said, else the environment that the JVM was started with."""
    file = os.environ.get(DEFAULTS)
    if file is not None:
        try:
            with open(file) as found:
                if said := found.read().strip():
                    return said
        except OSError:  # the session's folder is gone, or this is another machine
            pass
    return os.environ.get("MOLDAU_BOOTSTRAP")


def _warned(options: Options) -> Options:
    for text in options.warnings:
        warnings.warn(text, stacklevel=3)
    return options
