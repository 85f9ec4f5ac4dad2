"""What a task of the Spark engine does, without Spark: the same reports whenever it is done again, and no others."""

from __future__ import annotations

import json
import pickle
import socket
import threading
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

from tacit import Plan, Prior, Survey, make_plan
from tacit.files import BadRowsError, InputError, perturb_table, tally_file
from tacit.files.answers import AnswerColumns
from tacit.files.spark import _engine as spark
from tacit.files.spark import _session as session_of
from tacit.files.spark._engine import _Perturb
from tacit.files.tallies import ROW_COUNT, ReportColumns, sources_of_parts
from tacit.randomize.randomness import SeededWords
from tacit.tally import Tally

ROWS = 40_000


@pytest.fixture
def plan() -> Plan:
    return make_plan(Prior.of({"yes": 0.2, "no": 0.8}), Survey("yes"), epsilon=1)


def task_of(plan: Plan, on_unknown: str = "stop", key: bytes = bytes(32)) -> _Perturb:
    return _Perturb(plan, AnswerColumns.of(plan, "value", None, ["region"]), on_unknown, key)


def answers(rows: int = ROWS) -> pa.Table:
    random = np.random.default_rng(0)
    return pa.table(
        {
            "value": np.array(["yes", "no"])[random.integers(2, size=rows)],
            "region": pa.array([None if x == 3 else int(x) for x in random.integers(4, size=rows)], pa.int32()),
        }
    )


def done(task: _Perturb, table: pa.Table, size: int = 10_000) -> pa.Table:
    return pa.Table.from_batches(list(task(iter(table.to_batches(max_chunksize=size)))))


def test_a_task_that_is_done_again_reports_the_same(plan: Plan):
    """In another process, and however Spark cuts its rows into batches."""
    task, table = task_of(plan), answers()
    first = done(task, table)
    assert first.num_rows == ROWS
    assert first.column_names == ["region", "report", "tacit_plan", "tacit: reason", "tacit: rows", "tacit: key"]
    assert first["region"].equals(table["region"])
    for size in (777, 10_000, ROWS):
        again = done(pickle.loads(pickle.dumps(task)), table, size)
        for column in ("report", "tacit: key"):
            assert again[column].to_pylist() == first[column].to_pylist()


def test_other_rows_another_place_and_another_key_get_other_words(plan: Plan, monkeypatch: pytest.MonkeyPatch):
    """One changed cell changes the words of its whole block: words are never used for two contents."""
    table = answers()
    first = done(task_of(plan), table)["report"].to_numpy()

    def differs(task: _Perturb, other: pa.Table, since: int = 0) -> bool:
        reports = done(task, other)["report"].to_numpy()
        # Two independent reports of the same answer agree with a chance below 0.9.
        return bool((reports[since:] != first[since:]).mean() > 0.1)

    assert differs(task_of(plan, key=b"\1" * 32), table)
    values = table["value"].to_pylist()
    values[20_000] = "no" if values[20_000] == "yes" else "yes"
    changed = table.set_column(0, "value", pa.array(values))
    assert differs(task_of(plan), changed)
    assert not differs(task_of(plan), changed, spark.BLOCK_ROWS)
    regions = table["region"].to_pylist()
    regions[20_000] = 77
    assert differs(task_of(plan), table.set_column(1, "region", pa.array(regions, pa.int32())))
    from pyspark import TaskContext

    # Making one leaves it behind, and no session starts where there is one.
    monkeypatch.setattr(TaskContext, "_taskContext", None)
    elsewhere = TaskContext()
    elsewhere._partitionId = 3
    monkeypatch.setattr(TaskContext, "get", lambda: elsewhere)
    assert differs(task_of(plan), table)


def test_reports_have_the_probabilities_of_the_plan(plan: Plan):
    """Of 40,000 times "yes", at error probability 1e-9; the answers themselves would be rejected."""
    table = pa.table({"value": ["yes"] * ROWS, "region": pa.nulls(ROWS, pa.int32())})
    reports = done(task_of(plan, key=b"\2" * 32), table)["report"].to_numpy()
    chance = float(plan.groups[0].mechanism.matrix[0, 0])
    low, high = binom.ppf([5e-10, 1 - 5e-10], ROWS, chance)
    assert low <= (reports == 0).sum() <= high < ROWS
    embedded = perturb_table(plan, table, words=SeededWords(1))["report"].to_numpy()
    assert low <= (embedded == 0).sum() <= high


def test_bad_rows_stop_a_task_or_are_counted_and_their_cells_are_never_told(plan: Plan):
    secret = "a-very-private-answer"
    table = pa.table({"value": ["yes", secret, None, "no", ""], "region": pa.nulls(5, pa.int32())})
    with pytest.raises(BadRowsError, match=r"3 rows .* missing value: 2; unknown value: 1") as stopped:
        done(task_of(plan), table)
    assert secret not in str(stopped.value)
    left = done(task_of(plan, "skip"), table)
    assert left["report"].null_count == 2
    assert left["tacit: rows"].drop_null().to_pylist() == [2, 1]
    assert not list(task_of(plan)(iter([])))


def test_the_key_is_not_shown(plan: Plan):
    key = bytes(range(32))
    assert repr(key)[3:-1] not in repr(task_of(plan, key=key))
    assert "key" not in repr(task_of(plan, key=key))


def test_partial_tallies_merge_to_the_tally_of_all(plan: Plan):
    reports = pa.table({"report": np.random.default_rng(1).integers(-1, 3, ROWS)})
    count = spark._Count(plan, ReportColumns("report", None, (), None, None))
    rows = [row for part in range(5) for row in count(iter(reports.slice(part * 8000, 8000).to_batches()))]
    (whole,) = spark._merge(iter(rows))
    (text,) = whole["tally"].to_pylist()
    assert Tally.from_dict(json.loads(text)) == tally_file(plan, reports)
    counted = reports.group_by("report").aggregate([([], "count_all")]).rename_columns(["report", ROW_COUNT])
    (same,) = count(iter(counted.to_batches()))
    assert same["tally"].to_pylist() == [text]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("...\ntacit.files.answers.BadRowsError: A part has 3 rows.\n SQLSTATE", "A part has 3 rows."),
        ("...\nModuleNotFoundError: No module named 'tacit'\n", "has no 'tacit'. Install tacit-privacy"),
        ("[PATH_ALREADY_EXISTS] Path file:/x already exists. Set mode", "file:/x is there already"),
        ("[JAVA_GATEWAY_EXITED] Java gateway process exited", "needs Java"),
        ("[CAST_INVALID_INPUT] The value 'a-very-private-answer' of", r"failed \(CAST_INVALID_INPUT\)"),
        ("a-very-private-answer", "A job of Spark failed. Its logs"),
        (f"[USER_RAISED_EXCEPTION] {spark.NOT_UTF8} SQLSTATE: P0001 a-very-private-answer", "is not in UTF-8"),
    ],
)
def test_errors_of_spark_become_sentences_without_the_data(said: str, told: str):
    error = spark._plain_error(said, before_reading=False)
    with pytest.raises(type(error), match=told):
        raise error
    assert "private" not in str(error)


@pytest.mark.parametrize(
    ("master", "told"),
    [
        ("http://a-secret-host:8080", "must be spark://HOST:PORT, .* Got 'http://…'"),
        ("mesos://a-secret-host:5050", "Got 'mesos://…'"),
        ("a-secret-host", "Got another word"),
        ("spark://a-secret-host", "must be spark://HOST:PORT. Got no host and port"),
        ("sc://a-secret-host:port", "must be sc://HOST:PORT. Got no host and port"),
    ],
)
def test_a_master_is_checked_before_anything_waits_for_it(master: str, told: str, monkeypatch: pytest.MonkeyPatch):
    for name in session_of._PROXIES:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InputError, match=told) as refused:
        session_of.check_master(master)
    assert "secret" not in str(refused.value)


def test_a_port_must_answer(monkeypatch: pytest.MonkeyPatch):
    for name in session_of._PROXIES:
        monkeypatch.delenv(name, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for master in (f"spark://127.0.0.1:1,127.0.0.1:{port}", f"sc://127.0.0.1:{port}/;token=t", "local[2]", "yarn"):
            session_of.check_master(master)
    for scheme in ("spark", "sc"):
        with pytest.raises(InputError, match=f"Nothing answers at 127.0.0.1:{port}"):
            session_of.check_master(f"{scheme}://127.0.0.1:{port}")
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    session_of.check_master(f"sc://127.0.0.1:{port}")


@pytest.mark.parametrize(
    ("answer", "is_connect"),
    [(bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]), True), (b"HTTP/1.1 400 Bad Request", False), (b"", False), (None, False)],
)
def test_a_port_that_is_not_spark_connect_is_named(
    answer: bytes | None, is_connect: bool, monkeypatch: pytest.MonkeyPatch
):
    """PySpark would try for minutes. Settings of HTTP/2 are an answer; another protocol, or silence, is none."""
    for name in session_of._PROXIES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(session_of, "_ANSWER_SECONDS", 0.3)

    def serve(server: socket.socket) -> None:
        server.accept()[0].close()
        connection, _ = server.accept()
        with connection:
            assert connection.recv(100).startswith(b"PRI * HTTP/2.0")
            connection.sendall(answer or b"")
            if answer is None:
                time.sleep(0.6)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=[server])
        thread.start()
        master = f"sc://127.0.0.1:{server.getsockname()[1]}"
        with nullcontext() if is_connect else pytest.raises(InputError, match="is not Spark Connect"):
            session_of.check_master(master)
        thread.join()


def test_parts_that_spark_named_are_recognised_again():
    """By their names, which no other job gives; a part in each folder of a partition has the same."""
    name = "part-00000-0123abcd-0123-0123-0123-0123456789ab.c000.snappy.parquet"
    here = sources_of_parts([f"file:/a/group=%3D/{name}", f"file:/a/group=y/{name}"])
    again = sources_of_parts([f"hdfs://name/copy/group=y/{name}"])
    other = sources_of_parts([f"hdfs://name/copy/{name.replace('00000', '00001')}"])
    assert len(here.ids) == 2
    assert not here.complete
    with pytest.raises(ValueError, match="counted the same reports"):
        here.merge(again)
    assert len(here.merge(other).ids) == 3
    drawn = [sources_of_parts(["file:/a/part-0.parquet"]) for _ in range(2)]
    assert drawn[0] != drawn[1]


@pytest.mark.parametrize("name", ["reports.csv", "hdfs:///survey/reports.JSON", "reports.arrow", "-"])
def test_a_folder_is_not_named_as_another_file(name: str):
    with pytest.raises(InputError, match="a new folder of Parquet files"):
        session_of.check_target(name)
    session_of.check_target("survey.2026/reports.parquet")


def test_an_interrupted_run_leaves_no_empty_folder_and_touches_no_other(tmp_path: Path):
    made, found = tmp_path / "made", tmp_path / "found"
    found.mkdir()

    def interrupted(folder: Path) -> None:
        with spark.nothing_left(None, str(folder)):
            folder.mkdir(exist_ok=True)
            raise KeyboardInterrupt

    for folder in (made, found):
        with pytest.raises(KeyboardInterrupt):
            interrupted(folder)
    assert not made.exists()
    assert found.exists()
