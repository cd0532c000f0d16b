"""What several tests of the source begin with."""

from __future__ import annotations

import pytest

from moldau.spark.testing import MemoryCluster
from tests.packages.spark.orders import orders


@pytest.fixture
def cluster() -> MemoryCluster:
    return orders()
