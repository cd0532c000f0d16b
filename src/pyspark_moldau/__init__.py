"""Lets Spark find the data source ``moldau`` by itself.

Spark imports every top-level module named ``pyspark_*`` and registers its ``DefaultSource``. Kept light, and never
failing: an error here would take every other Python source of the environment with it.
Read next: moldau/spark/source.py.
"""

try:
    from moldau.spark.source import MoldauSource as DefaultSource
except ImportError as _error:
    import pyspark
    from pyspark.sql.datasource import DataSource

    _WHY = (
        f'format("moldau") needs PySpark 4.2 or later, and this is {pyspark.__version__} ({_error}): use Spark\'s own '
        f"Kafka connector, org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}, which reads and writes "
        "the same clusters"
    )

    class DefaultSource(DataSource):  # type: ignore[no-redef]
        """Stands where the source cannot, and says why when it is used."""

        @classmethod
        def name(cls) -> str:
            return "moldau"

        def __init__(self, options: dict[str, str]) -> None:
            raise ImportError(_WHY)


__all__ = ["DefaultSource"]
