"""Clusters of Apache Kafka's and Moldau's nodes together: ``python -m tests.interchange``, or ``make interchange``."""

import sys

from tests.tools import ROOT

sys.path.insert(0, str(ROOT / "tests" / "live"))
