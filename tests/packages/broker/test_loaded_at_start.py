"""What a node loads before it serves: a count, since each module costs a start a quarter of a millisecond."""

from __future__ import annotations

import subprocess
import sys

from moldau.broker.kraft import start_checks
from moldau.wire.records.framing import pack_metadata
from moldau.wire.records.metadata import FeatureLevelRecord, ZkMigrationStateRecord

MODULES_MAX = 307
"""Of ours, with what a first write loads left out. More need a reason: 7ee9029 loaded 208 until it served."""
NODE = """
import re, sys
real, compiled = re._compile, []
re._compile = lambda pattern, flags: compiled.append(pattern) or real(pattern, flags)
import moldau.admin.main, moldau.admin.node, moldau.broker.api, moldau.broker.node
import moldau.runtime.logs, moldau.runtime.memory, moldau.runtime.world
print(*(name for name in sys.modules if name.partition(".")[0] == "moldau"))
print(len(compiled))
"""


def test_a_node_loads_no_more_modules_than_it_did_and_nothing_of_zookeeper_or_groups() -> None:
    done = subprocess.run([sys.executable, "-c", NODE], capture_output=True, text=True, check=True)
    modules, compiled = done.stdout.splitlines()
    assert len(modules.split()) <= MODULES_MAX
    assert not {name for name in modules.split() if name.startswith(("moldau.zookeeper", "moldau.groups"))}
    assert int(compiled) <= 40, "a regular expression that a start does not use is compiled when it is used"


def test_the_beginnings_of_records_that_a_start_looks_for_are_those_that_are_written() -> None:
    written = [pack_metadata(record)[:3] for record in (FeatureLevelRecord(), ZkMigrationStateRecord())]
    assert list(start_checks._HEADS) == written
