"""Writes src/moldau/pipeline/spark_functions.py: the functions of the installed Spark, by SHOW FUNCTIONS.

python scripts/spark_functions.py
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from pyspark.sql import SparkSession

from moldau.spark import session

TARGET = Path(__file__).parents[1] / "src" / "moldau" / "pipeline" / "spark_functions.py"
HEAD = '''"""The functions that Spark has itself, for the linter, which may not start it; without operators (``!=``).

A script of this name, in the folder scripts, writes it. A test compares them with those of the Spark that is installed.
"""

_TEXT = """
'''


def functions(spark: SparkSession) -> list[str]:
    """The names of Spark's own functions, without operators, in their order."""
    names = {row.function for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    return sorted(name for name in names if re.fullmatch(r"[a-z][a-z0-9_]*", name))


def main() -> None:
    spark = session("functions")
    lines = textwrap.wrap(" ".join(functions(spark)), 118, break_on_hyphens=False)
    spark.stop()
    TARGET.write_text(HEAD + "".join(f"{line}\n" for line in lines) + '"""\nNAMES = frozenset(_TEXT.split())\n')


if __name__ == "__main__":
    main()
