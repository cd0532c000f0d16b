"""What the data sources over a cluster's files share: options that are checked, tasks, rows as Arrow batches.

Kept light, since Spark imports it whenever it looks for a source: what reads files is imported when a source is used.
Only batch reads: these files are looked at as they are, and not followed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

if TYPE_CHECKING:
    import pyarrow

    from moldau.spark.given import Given
    from moldau.spark.own.table import PlainTable


class SentTasks(InputPartition):
    """Some tasks as Spark sends them to whoever runs them."""

    def __init__(self, tasks: Sequence[object]) -> None:
        super().__init__(None)
        self.tasks = tasks


class TableReader(DataSourceReader):
    """Reads a table, some of its tasks in each partition."""

    def __init__(self, table: PlainTable) -> None:
        self._table = table

    def partitions(self) -> list[InputPartition]:
        """The tasks, small ones together; a table without any still has one partition, which Spark demands."""
        from moldau.spark.own.packing import packed

        return [SentTasks(tasks) for tasks in packed(self._table.tasks(), self._table.split_bytes) or [[]]]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """The rows of some tasks."""
        assert isinstance(partition, SentTasks)
        for task in partition.tasks:
            yield from self._table.batches(task)


class FilesSource(DataSource):
    """A source over files; ``OPTIONS`` are those that it has beside ``path``."""

    NAME: ClassVar[str]
    OPTIONS: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def name(cls) -> str:
        return cls.NAME

    def schema(self) -> str:
        """The columns, which may depend on the options; OptionError at ``load()`` when one cannot be honoured."""
        from moldau.clusterdata.columns import ddl

        return ddl(self._table().columns)

    def reader(self, schema: object) -> DataSourceReader:
        return TableReader(self._table())

    @abstractmethod
    def table(self, given: Given, paths: tuple[str, ...]) -> PlainTable:
        """What these options ask for."""

    def _table(self) -> PlainTable:
        from moldau.spark.given import Given, OptionError
        from moldau.spark.own.options import paths_of

        given = Given({name: value for name, value in self.options.items() if value is not None})
        given.refuse_unknown(("path", "paths", *self.OPTIONS))
        if given.under("kafka."):
            raise OptionError("kafka.*", next(iter(given.under("kafka."))), "files are read here, and no cluster")
        return self.table(given, paths_of(given))


class StateLogSource(FilesSource):
    """``format("moldau_statelog")``: state-change logs, a row for each line."""

    NAME = "moldau_statelog"
    OPTIONS = ("columns", "splitBytes")

    def table(self, given: Given, paths: tuple[str, ...]) -> PlainTable:
        from moldau.spark.own.tables import state_log

        return state_log(given, paths)


class SegmentsSource(FilesSource):
    """``format("moldau_segments")``: the batches or the records of segments."""

    NAME = "moldau_segments"
    OPTIONS = ("mode", "topics", "until", "checksums")

    def table(self, given: Given, paths: tuple[str, ...]) -> PlainTable:
        from moldau.spark.own.tables import segments

        return segments(given, paths)


class MetadataSource(FilesSource):
    """``format("moldau_metadata")``: the records of the metadata log, the image at a point, or a difference of two."""

    NAME = "moldau_metadata"
    OPTIONS = ("table", "asOfOffset", "asOfTime", "fromOffset", "fromTime")

    def table(self, given: Given, paths: tuple[str, ...]) -> PlainTable:
        from moldau.spark.own.tables import metadata

        return metadata(given, paths)


class JobSource(FilesSource):
    """``format("moldau_job")``: the table of a job (``moldau job``)."""

    NAME = "moldau_job"
    OPTIONS = ("job", "topics", "groups", "transactionalIds", "every", "maxTransactionTimeout")

    def table(self, given: Given, paths: tuple[str, ...]) -> PlainTable:
        from moldau.spark.own.tables import job

        return job(given, paths)
