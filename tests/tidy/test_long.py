"""What `make test` leaves out is there, and is what was measured as long."""

from __future__ import annotations

import re

from tests.long import LIST, is_kept, is_long, long_ones
from tests.tools import ROOT

SAID = """
12.00s call     tests/live/test_demo.py::test_one[a b-1]
7.00s call     tests/live/test_demo.py::test_two
2.00s setup    tests/live/test_demo.py::test_two
7.90s call     tests/live/test_demo.py::test_three
60.00s call     tests/live/test_fuzz.py::test_a_node
"""


def test_setup_and_call_count_together_and_what_is_kept_is_never_long() -> None:
    assert long_ones(SAID) == ["tests/live/test_demo.py::test_one[a b-1]", "tests/live/test_demo.py::test_two"]


def test_every_long_test_is_there_and_none_is_kept() -> None:
    named = [line for line in LIST.read_text().splitlines() if not line.startswith("#")]
    assert named
    assert all(map(is_long, named))
    for nodeid in named:
        file, _, test = nodeid.partition("::")
        assert re.search(rf"def {test.split('[')[0]}\(", (ROOT / file).read_text()), nodeid
    assert not [nodeid for nodeid in named if is_kept(nodeid)]
