"""What ends a run is told in one line that names the part of the pipeline, and what to do."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from foreign import create_topic, wait_led
from test_pipeline import Orders, orders

from moldau.admin.pipeline import pipeline as commands
from moldau.client import admin
from moldau.client.sync import Cluster
from moldau.model import TopicPartition
from moldau.pipeline import audit
from moldau.pipeline.batches import ForeachBatch
from moldau.pipeline.books import Books
from moldau.pipeline.folder import BrokenPipelineFile, PipelineFolder
from moldau.pipeline.positions import lags, plan
from moldau.pipeline.reading import load
from moldau.pipeline.running import Ended
from moldau.pipeline.said import PartFailed, words
from moldau.pipeline.unfinished import unfinished
from moldau.spark.tables import TableError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["orders"]  # a fixture

COMMAND = [sys.executable, "-c", "from moldau.admin.main import main; main()", "pipeline"]
PATIENCE_S = 240


def run(orders: Orders) -> subprocess.CompletedProcess[str]:
    """A run by the command, in a process of its own."""
    words = [*COMMAND, "run", str(orders.file), "--once"]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE_S)


@pytest.mark.timeout(900)
def test_an_error_of_sql_is_one_line_that_names_the_step_and_not_sparks_log(orders: Orders) -> None:
    orders.orders(range(3))
    text = orders.file.read_text()
    orders.file.write_text(text.replace("amount * 2 AS twice", "CAST(_topic AS INT) AS twice"))
    found = run(orders)
    assert (found.returncode, found.stdout) == (1, "")
    (line,) = found.stderr.splitlines()
    assert line.startswith("moldau: transform: [CAST_INVALID_INPUT] The value "), line
    assert "SQLSTATE" not in line

    orders.file.write_text(text.replace("key: id}", "key: id, value: raise_error('no such order')}"))
    with pytest.raises(PartFailed) as failed:
        orders.run()
    assert words(failed.value) == f"sink {orders.topic}-clean: [USER_RAISED_EXCEPTION] no such order"


@pytest.mark.timeout(900)
def test_fields_that_tables_take_for_one_are_named_before_anything_of_the_batch_is_written(orders: Orders) -> None:
    """Dead letters and the topic were written, and Delta refused the batch then."""
    orders.orders(range(3))
    orders.write({"id": 3, "amount": -1, "at": None})
    inner = "(SELECT *, named_struct('a', 1, 'A', 2) AS s FROM records)"  # what the linter does not follow
    orders.file.write_text(orders.file.read_text().replace("- sql: SELECT id", "- sql: SELECT s, id").replace(
        "FROM records", f"FROM {inner} q"))  # fmt: skip
    why = "'s.A' and 's.a' differ in case only"
    found = run(orders)
    assert (found.returncode, why in found.stderr.splitlines()[-1]) == (1, True), found.stderr
    assert not (orders.folder / "dead").exists()
    rehearsed = CliRunner().invoke(commands, ["dry-run", str(orders.file)])
    assert (rehearsed.exit_code, why in rehearsed.output) == (1, True), rehearsed.output


@pytest.mark.timeout(900)
def test_a_table_that_refuses_the_columns_ends_the_run_before_anything_of_the_batch_is_written(orders: Orders) -> None:
    """Its dead letters and the table before were written, and the file as it had been was refused then."""
    orders.declare(more_sinks="  - {table: second}")
    text = orders.file.read_text()
    orders.orders(range(3))
    assert orders.run() is Ended.DONE
    orders.orders(range(3, 6))
    orders.write(b"garbage")
    orders.file.write_text(text.replace("amount * 2 AS twice", "CAST(amount AS STRING) AS twice"))
    with pytest.raises(TableError, match="do not fit table .*orders: they differ in twice"):
        orders.run()
    assert unfinished(load(orders.file, {}), orders.runner().folder) == []
    orders.file.write_text(text)
    assert orders.run() is Ended.DONE
    assert orders.ids() == orders.clean() == list(range(6))


@pytest.mark.timeout(900)
def test_a_step_of_python_that_ends_the_program_ends_the_run(orders: Orders) -> None:
    orders.orders(range(3))
    (orders.folder / "leaves.py").write_text("import sys\n\ndef clean(rows):\n    sys.exit('bad configuration')\n")
    lines = [
        "  - python: 'leaves:clean'" if line.startswith("  - sql") else line
        for line in orders.file.read_text().splitlines()
    ]
    orders.file.write_text("\n".join(lines))
    found = run(orders)
    assert (found.returncode, found.stderr.splitlines()[-1]) == (
        1,
        "moldau: transform[0]: it ended by SystemExit: bad configuration",
    )


@pytest.mark.timeout(900)
def test_a_topic_that_is_taken_out_of_the_file_is_told_by_plan_and_run_alike(orders: Orders) -> None:
    other = f"{orders.topic}-b"
    create_topic(orders.bootstrap, other, 1, 3)
    text = orders.file.read_text()
    orders.file.write_text(text.replace(f"topics: {orders.topic},", f"topics: [{orders.topic}, {other}],"))
    orders.orders(range(3))
    assert orders.run() is Ended.DONE
    orders.file.write_text(text)
    orders.orders(range(3, 6))
    why = "it is not in the list of what is read any more"
    pipeline = load(orders.file, {})
    steps = {one.what: one.how for one in plan(pipeline, PipelineFolder(pipeline))}
    assert steps[f"topic {other}"] == f"{why}: a run is refused"
    with pytest.raises(Exception, match=why) as failed:
        orders.run()
    assert "is gone on with when it is named there again" in words(failed.value)
    orders.file.write_text(text.replace("max_records: 40", "max_records: 40, on_loss: skip"))
    assert orders.run() is Ended.DONE
    assert orders.ids() == [*range(6)]


@pytest.mark.timeout(900)
def test_a_checkpoint_that_was_damaged_is_named_and_gone_on_with_when_it_is_restored(orders: Orders) -> None:
    orders.orders(range(3))
    assert orders.run() is Ended.DONE
    orders.orders(range(3, 6))
    for name in ("metadata", "offsets/0", "commits/0"):
        file = orders.folder / "state/checkpoint" / name
        whole = file.read_bytes()
        file.write_bytes(b"")
        with pytest.raises(BrokenPipelineFile, match=f"checkpoint/{name} is damaged"):
            orders.run()
        file.write_bytes(whole)
    assert orders.run() is Ended.DONE
    assert orders.ids() == [*range(6)]


@pytest.mark.timeout(900)
def test_what_a_batch_fails_by_outside_of_sinks_is_told_with_its_part(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.orders(range(3))

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "/state/books")

    with monkeypatch.context() as patched:
        patched.setattr(Books, "add", full)
        with pytest.raises(PartFailed) as failed:
            orders.run()
    assert words(failed.value) == "books: /state/books: No space left on device"
    state = orders.runner().folder.state()
    assert state is not None
    assert (state.state, state.message) == ("failed", words(failed.value))
    assert orders.run() is Ended.DONE
    assert orders.ids() == [*range(3)]


@pytest.mark.timeout(900)
def test_what_was_lost_under_skip_is_told_by_the_books_and_no_alarm_stays(orders: Orders) -> None:
    text = orders.file.read_text().replace("max_records: 40", "on_loss: skip")
    orders.file.write_text(text.replace(f"topics: {orders.topic},", f"topics: {orders.topic}-1,"))
    name, orders.topic = orders.topic, f"{orders.topic}-1"
    create_topic(orders.bootstrap, orders.topic, 1, 3)
    orders.orders(range(10))
    assert orders.run() is Ended.DONE
    orders.orders(range(10, 20))
    part = TopicPartition(orders.topic, 0)
    with Cluster(orders.bootstrap) as cluster:
        cluster.run(admin.delete_records(cluster.client, {part: 15}))
    assert orders.run() is Ended.DONE
    with Cluster(orders.bootstrap) as cluster:
        cluster.run(admin.delete_topics(cluster.client, [orders.topic]))
    wait_led(orders.bootstrap, orders.topic, 0)
    create_topic(orders.bootstrap, orders.topic, 1, 3)
    orders.orders(range(100, 130))
    assert orders.run() is Ended.DONE
    lines = orders.runner().folder.books.newest(100)
    assert (audit.problems(orders.runner().folder, whole=True), audit.gaps(lines)) == ([], 0)
    expired, anew = audit.lost(lines)
    assert expired.startswith(f"{part}: 5 offsets were lost before they were read")
    assert anew.startswith(f"{part}: what was not read before offset 20 was reached is lost; the topic was deleted")
    orders.topic = name
    assert orders.ids() == [*range(10), *range(15, 20), *range(100, 130)]


@pytest.mark.timeout(900)
def test_what_expired_as_the_last_batch_of_a_run_read_it_is_told_by_its_own_line(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No batch follows that would tell of it: 3 records were missing, and it was put down to compaction."""
    text = orders.file.read_text().replace("max_records: 40", "on_loss: skip")
    orders.file.write_text(text.replace(f"topics: {orders.topic},", f"topics: {orders.topic}-1,"))
    name, orders.topic = orders.topic, f"{orders.topic}-1"
    create_topic(orders.bootstrap, orders.topic, 1, 3)
    orders.orders(range(10))
    part, take = TopicPartition(orders.topic, 0), ForeachBatch._take_next

    def expires(batches: ForeachBatch, records: DataFrame, batch_id: int) -> None:
        with Cluster(orders.bootstrap) as cluster:
            cluster.run(admin.delete_records(cluster.client, {part: 3}))
        take(batches, records, batch_id)

    with monkeypatch.context() as patched:
        patched.setattr(ForeachBatch, "_take_next", expires)
        assert orders.run() is Ended.DONE
    lines = orders.runner().folder.books.newest(100)
    assert (audit.problems(orders.runner().folder, whole=True), audit.gaps(lines)) == ([], 0)
    (told,) = audit.lost(lines)
    assert told.startswith(f"{part}: up to 3 offsets expired while a batch read them")
    orders.orders(range(10, 14))
    assert orders.run() is Ended.DONE
    lines = orders.runner().folder.books.newest(100)
    assert (audit.problems(orders.runner().folder, whole=True), audit.lost(lines)) == ([], [told])
    orders.topic = name
    assert orders.ids() == [*range(3, 14)]


@pytest.mark.timeout(900)
def test_topics_that_are_to_be_written_and_are_not_there_are_told_by_plan_and_when_a_run_begins(orders: Orders) -> None:
    """That of dead letters was missed by the first bad record, perhaps after days; the plan said that it would be
    written."""
    missing = f"{orders.topic}-dead"
    orders.file.write_text(orders.file.read_text().replace("{table: dead}", f"{{table: dead, topic: {missing}}}"))
    (told,) = [
        one.how for one in plan(load(orders.file, {}), orders.runner().folder) if "not in the cluster" in one.how
    ]
    assert f"`moldau topic create {missing}` makes it" in told
    orders.orders(range(3))
    said = list[str]()
    assert orders.runner(say=said.append).run() is Ended.DONE
    assert [text for text in said if "not in the cluster" in text] == [f"topic {missing} {told}"]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("where", ["sink", "dlq"])
def test_a_topic_that_is_not_there_ends_the_run_before_anything_of_the_batch_is_written(
    orders: Orders, where: str
) -> None:
    """Tables had the batch then, and what was unfinished named the topic, which never had a record, as one that
    perhaps has some."""
    missing, text = f"{orders.topic}-missing", orders.file.read_text()
    if where == "sink":
        orders.declare(more_sinks=f"  - {{topic: {missing}}}")
    else:
        orders.file.write_text(text.replace("{table: dead}", f"{{table: dead, topic: {missing}}}"))
    orders.orders(range(3))
    orders.write(b"garbage")
    found = run(orders)
    told = (
        f"moldau: topic {missing} is not in the cluster, and this batch has records for it; nothing of it was written."
    )
    assert (found.returncode, found.stderr.splitlines()[-1]) == (1, f"{told} `moldau topic create {missing}` makes it")
    assert unfinished(load(orders.file, {}), orders.runner().folder) == []
    assert not (orders.folder / "orders").exists()
    orders.file.write_text(text)
    assert orders.run() is Ended.DONE
    assert orders.ids() == orders.clean() == list(range(3))


@pytest.mark.timeout(900)
def test_a_copy_into_its_own_cluster_by_another_brokers_address_ends_the_run_before_anything_is_written(
    orders: Orders,
) -> None:
    """It read what it had written, again and again, and the books balanced."""
    ours, other = orders.bootstrap.split(",")[:2]
    text = orders.file.read_text().replace(f"cluster: {orders.bootstrap}", f"cluster: {ours}")
    sink = f"{{topic: {orders.topic}-clean, key: id}}"
    assert sink in text
    orders.file.write_text(text.replace(sink, f"{{topic: {orders.topic}, cluster: '{other}', key: id}}"))
    orders.orders(range(4))
    with pytest.raises(Exception, match=f"{orders.topic}@{other} is what the pipeline reads, since"):
        orders.run()
    assert sum(one.end for one in lags(load(orders.file, {}), orders.runner().folder)) == 4
    assert not (orders.folder / "orders").exists()


def test_a_source_that_is_not_there_is_told_in_the_words_of_the_file(orders: Orders) -> None:
    orders.file.write_text(orders.file.read_text().replace(f"topics: {orders.topic},", "topics: ordrs,"))
    found = run(orders)
    why = "source: topics is 'ordrs': not in the cluster: ordrs; `moldau topic create NAME` makes a topic"
    assert (found.returncode, found.stderr.splitlines()[-1]) == (1, f"moldau: {why}")


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("config", "value", "mended", "why"),
    [
        ({"max_message_bytes": "2000"}, "value: \"repeat('x', 5000)\"", {"max.message.bytes": "1000000"},
         "MESSAGE_TOO_LARGE"),
        ({"cleanup_policy": "compact"}, "value: id", {"cleanup.policy": "delete"}, "without a key"),
    ],
    ids=["too large", "without a key"],
)  # fmt: skip
def test_records_that_a_topic_does_not_take_end_the_run_by_its_name_and_are_written_once_it_does(
    orders: Orders, config: dict[str, str], value: str, mended: dict[str, str], why: str
) -> None:
    strict = f"{orders.topic}-strict"
    create_topic(orders.bootstrap, strict, 1, 3, **config)
    orders.declare(more_sinks=f"  - {{topic: {strict}, {value}}}")
    orders.orders(range(3))
    orders.write(b"garbage")
    found = run(orders)
    line = found.stderr.splitlines()[-1]
    assert (found.returncode, strict in line, why in line) == (1, True, True), found.stderr
    books = orders.runner().folder.books
    assert books.last() is None, "a batch that is not whole is in no books"
    (left,) = unfinished(load(orders.file, {}), orders.runner().folder)
    assert strict in left.topics
    with Cluster(orders.bootstrap) as cluster:
        changes = [(key, admin.AlterOp.SET, one) for key, one in mended.items()]
        cluster.run(admin.alter_configs(cluster.client, {admin.Resource(admin.ResourceType.TOPIC, strict): changes}))
    assert orders.run() is Ended.DONE
    assert orders.ids() == orders.clean() == list(range(3))
    last = books.last()
    assert last is not None
    assert (last.totals.read, last.totals.sinks[strict]) == (4, 3)
