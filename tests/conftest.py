"""Settings for all tests: Hypothesis has no deadline, because machines are shared and time proves nothing.

Examples are drawn anew in every run, but under the profile `landing` (what `make test` uses): the same commit gets the
same examples there, and tests their written order, so that its verdict can be repeated. Chance hunts at every other
time, and in `make sim`. Under the profile `seconds` (`make unit`, `make quick`) there are a tenth as many.
"""

import faulthandler
import gc
import os
import signal
from collections.abc import Generator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from moldau.cluster import nodes
from moldau.runtime.disk import RealDisk, RealFile
from moldau.runtime.open_files import allow_many_files
from tests.long import is_long
from tests.order import WRITTEN, new_seed, shuffled
from tests.tools import missing, needs

settings.register_profile(
    "moldau", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much], print_blob=True
)
settings.register_profile("seconds", settings.get_profile("moldau"), max_examples=10)
settings.register_profile("landing", settings.get_profile("moldau"), derandomize=True)
settings.load_profile("moldau")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="Write down what scenes lead to now, and compare nothing.")
    parser.addoption(
        "--apart", action="store_true", help="Run live files with clusters of their own beside each other."
    )
    parser.addoption("--order", default="random", help="Of tests: random, written, or the seed that a run has printed.")
    parser.addoption("--short", action="store_true", help="Leave out what takes long, as `make test` does.")


def pytest_configure(config: pytest.Config) -> None:
    """Beside others (pytest-xdist), each process gives out ports of its own: a port that one has found free and not
    bound yet, or whose node is down, is free for another as well. So does `make test` on each plane.

    Nodes that a test kills within this process keep their files open until it ends, thousands in all."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As a shell without job control starts what it puts into the background: commands that a test interrupts
        # would inherit that, and not hear of it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        # Under nohup: as a handler is not inherited, this process still goes on, and commands can be hung up.
        signal.signal(signal.SIGHUP, lambda *_: None)
    allow_many_files()
    if hasattr(config, "workerinput"):
        config.option.order = config.workerinput["order"]
    elif config.option.order == "random":
        landing = config.getoption("--hypothesis-profile") == "landing"
        config.option.order = WRITTEN if landing else new_seed()
    zookeeper = os.environ.get("MOLDAU_LIVE_SYSTEM") == "moldau-zookeeper"
    nodes.PORTS = nodes.PORTS[9_000:] if zookeeper else nodes.PORTS[:9_000]
    worker = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    if worker:
        nodes.PORTS = nodes.PORTS[int(worker) :: int(os.environ["PYTEST_XDIST_WORKER_COUNT"])]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Nothing of what is collected becomes garbage, and no later collection need look at it: 13,000 tests and what they
    import are a million objects, which took a second whenever all were looked at."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_configure_node(node: Any) -> None:  # Any: pytest-xdist comes without types
    """Processes beside each other have one order."""
    node.workerinput["order"] = node.config.option.order


def pytest_report_header(config: pytest.Config) -> str:
    return f"order of tests: --order {config.option.order}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    if exitstatus:  # also of a quiet run, which has no header
        terminalreporter.write_line(f"in the same order again: --order {config.option.order}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Whoever needs a program that is not installed is left out, and says so; with --short what takes long, too."""
    short = config.getoption("--short")
    for item in items:
        if short and is_long(item.nodeid):
            item.add_marker(pytest.mark.skip(reason="long: make test-all"))
        fixtures = getattr(item, "fixturenames", ())
        for why in filter(None, map(missing, needs(item.nodeid, fixtures))):
            item.add_marker(pytest.mark.skip(reason=why))
    if config.option.order != WRITTEN:
        items[:] = [items[place] for place in shuffled([item.nodeid for item in items], config.option.order)]


MANY_FILES = 500
COLLECTOR = gc.get_threshold()


def close_forgotten(file: RealFile) -> None:
    """Close a file that a test has let go of as it was, as a node that is killed does."""
    fd, file.fd = file.fd, -1
    if fd >= 0:
        with suppress(OSError):
            os.close(fd)


def unlock_forgotten(disk: RealDisk) -> None:
    """The same of its folders' locks, two open files each."""
    for path in list(disk._locks):
        with suppress(OSError):
            disk.unlock(path)


RealFile.__del__ = close_forgotten  # type: ignore[attr-defined]  # tests alone drop files: a node closes its own
RealDisk.__del__ = unlock_forgotten  # type: ignore[attr-defined]


kept_files = 0
"""How many files stayed open when the last collection was done: what this process and tests still hold."""


def close_forgotten_files() -> None:
    """Collect what earlier tests left, once many more files are open than the last time: nodes that were killed are in
    cycles with theirs, and a test that runs a command here may leave the collector off. One process of `make test` had
    none left of 20,000. To collect at each test while many stay open was half of the processor time of all tests."""
    global kept_files
    gc.enable()
    gc.set_threshold(*COLLECTOR)
    if Path("/proc/self/fd").is_dir() and len(os.listdir("/proc/self/fd")) > kept_files + MANY_FILES:
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        kept_files = len(os.listdir("/proc/self/fd"))


def give_pytest_its_format(item: pytest.Item) -> None:
    """A logger of PySpark's gives its format, JSON, to each handler that it gets; and pytest gives its own to a logger
    that does not propagate, again in every phase of every later test."""
    logs = item.config.pluginmanager.get_plugin("logging-plugin")
    if logs is not None:
        for handler in (logs.caplog_handler, logs.report_handler):
            handler.setFormatter(logs.formatter)


GRACE_S = 60


def give_its_own_limit(item: pytest.Item) -> None:
    """The process of a test that hangs in C is ended after `faulthandler_timeout`, without a word of which test failed
    and with all that it has started left running. So that comes after the test's own limit, however long that is."""
    marker = item.get_closest_marker("timeout")
    limit_s = float(marker.args[0]) if marker is not None and marker.args else 0.0
    most_s = float(item.config.getini("faulthandler_timeout") or 0)
    if most_s and limit_s + GRACE_S > most_s and fault_handler_stderr_fd_key in item.config.stash:
        file = item.config.stash[fault_handler_stderr_fd_key]
        faulthandler.dump_traceback_later(limit_s + GRACE_S, file=file, exit=True)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    give_pytest_its_format(item)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Who runs live tests beside others is not kept waiting: packages' tests have no clock of their own that minds."""
    give_its_own_limit(item)
    give_pytest_its_format(item)
    close_forgotten_files()
    if "PYTEST_XDIST_WORKER" in os.environ and os.nice(0) == 0 and not item.nodeid.startswith("tests/live/"):
        os.nice(10)


OF_SPARK = ("cluster_pipelines", "demo", "pipeline", "snippets", "spark")
"""How the names of files go on whose live tests wait for Spark more than for anything else: half of what is live."""
OF_TOOLS = ("classic", "dump", "foreign_java")
"""The same of those that wait for JVMs of Kafka's tools, or stand in for them: a third of what is left."""


@cache
def shares_a_cluster(file: str) -> bool:
    """Whether tests of a file use the one running cluster."""
    text = Path(file).read_text()
    return "bootstrap_servers: str" in text or "live_cluster" in text


@cache
def has_fixtures_of_its_module(file: str) -> bool:
    """Whether tests of a file share what was made once, such as two wheels or an image of 100,000 partitions."""
    return 'scope="module"' in Path(file).read_text()


class LiveTogether(LoadScopeScheduling):  # type: ignore[misc]  # it comes without types
    """Live tests are for three processes, as they share a cluster, or a Spark, and load the machine enough. All others
    go to whoever is free, one by one, or by file where each process would make again what the file's tests share. With
    --apart files that start clusters of their own go to whoever is free too."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if not nodeid.startswith("tests/live/"):
            return file if has_fixtures_of_its_module(file) else nodeid
        if self.config.option.apart and not shares_a_cluster(file):
            return file
        name = file.removeprefix("tests/live/test_")
        if name.startswith(OF_SPARK):
            return "live with Spark"
        return "live with tools" if name.startswith(OF_TOOLS) else "live"


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LiveTogether:
    return LiveTogether(config, log)


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether scenes are written anew."""
    return bool(request.config.getoption("--rewrite"))
