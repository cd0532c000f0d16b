"""What a logger of PySpark's does to pytest's own handlers lasts no longer than a phase of a test."""

from __future__ import annotations

import logging

import pytest

pytest.importorskip("pyspark")


@pytest.mark.parametrize("time", ["it gets the handler in the first", "and again in every later one"])
def test_what_tests_log_has_pytests_format_beside_a_logger_of_pysparks(
    time: str, caplog: pytest.LogCaptureFixture
) -> None:
    from pyspark.logger import PySparkLogger

    PySparkLogger.getLogger("tests.of-pyspark").propagate = False
    logging.getLogger("moldau.tests").warning("a line")
    assert "a line" in caplog.text
    assert not caplog.text.startswith("{"), time
