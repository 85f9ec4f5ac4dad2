"""The Spark engine on a real cluster of one executor, which is killed in the middle of its work.

What a task does is tested without Spark in `test_spark_tasks.py`.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tacit import Plan, Prior, Survey, estimate, make_plan, read_priors
from tacit.cli.everything import app
from tacit.files import (
    BadRowsError,
    InputError,
    perturb_file,
    perturb_table,
    spark,
    tally_by,
    tally_file,
)
from tacit.files.spark import _engine, _session
from tacit.plan import Question

from support import spark_cluster, spark_daemon, toy
from support.places import ROOT
from support.ports import free_port
from support.questions import yes_no_questionnaire
from support.raw import EXPECTED, raw_table, read_as, recoded_plan

#: Of the runs in which somebody is killed or that are looked for in logs; letters, which any form of escaping leaves.
KEY = b"the-key-of-this-run-is-no-secret"
#: Each part is half a block longer than a block, so that reports of it are drawn long before its end.
PARTS, PART_ROWS = 3, spark_daemon.BLOCK_ROWS * 3 // 2
ROWS = PARTS * PART_ROWS
SECRET = "a-very-private-answer"


@dataclass(frozen=True)
class Running:
    """A session on the cluster, the URL at which the same driver serves Spark Connect, and where its logs are."""

    session: Any
    master: str
    connect: str
    logs: Path

    @property
    def files(self) -> spark.SparkFiles:
        return spark.SparkFiles(self.session)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Spark; without it these tests are skipped, except where everything must run."""
    if missing := spark_cluster.missing():
        told = f"{missing} is missing, so the Spark engine is UNTESTED on a cluster: see tools/system-packages.sh java."
        if os.environ.get("CI"):
            pytest.fail(told)
        pytest.skip(told)
    port, logs = free_port(), tmp_path_factory.mktemp("logs")
    settings = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": logs.as_uri(),
        "spark.sql.shuffle.partitions": "3",
        # A task that is to be killed goes slowly from batch to batch.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
        "spark.task.maxFailures": "2",
        "spark.sql.codegen.wholeStage": "false",
        # Jobs of seconds take longer to compile than to interpret.
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    with spark_cluster.running(1, **settings, **spark_cluster.FORKS) as session:
        yield Running(session, session.sparkContext.master, f"sc://127.0.0.1:{port}", logs)


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    priors = tmp_path_factory.mktemp("priors") / "priors.csv"
    priors.write_text("group,value,count\nyoung,yes,30\nyoung,no,970\nold,yes,400\nold,no,1600\n")
    return make_plan(read_priors(priors), Survey("yes"), epsilon=1)


def logged(logs: Path) -> bytes:
    """Spark's event log."""
    return b"".join(path.read_bytes() for path in logs.rglob("*") if path.is_file())


def key_in(logs: Path) -> bool:
    """Whether Spark's event log has the key, as it is or encoded."""
    written = logged(logs)
    assert len(written) > 10_000
    encoded = [base64.b64encode(KEY[start:])[:-4] for start in range(3)]
    return any(form in written for form in (KEY, KEY.hex().encode(), KEY.hex().upper().encode(), *encoded))


def reports_of(plan: Plan, rows: int) -> pa.Table:
    """Reports with all that a collector may meet."""
    random = np.random.default_rng(3)
    answers = {
        "value": random.choice(plan.values, rows),
        "group": random.choice([group.name for group in plan.groups], rows),
    }
    drawn = perturb_table(plan, answers)
    cells = [None if k % 97 == 0 else -1 if k % 89 == 0 else cell for k, cell in enumerate(drawn["report"].to_pylist())]
    table = drawn.set_column(drawn.column_names.index("report"), "report", pa.array(cells, pa.int64()))
    regions = pa.array([None if k % 50 == 0 else f"region {k % 3}" for k in range(rows)])
    weights = pa.array([None if k % 71 == 0 else 0.1 * (k % 13) for k in range(rows)])
    return table.append_column("region", regions).append_column("weight", weights)


def test_tallies_are_those_of_the_embedded_engine_however_reports_are_split(
    running: Running, plan: Plan, tmp_path: Path
):
    table = reports_of(plan, 1000)
    pq.write_table(table, tmp_path / "reports.parquet")
    split = running.session.read.parquet(str(tmp_path / "reports.parquet")).repartition(2)
    assert running.files.tally_by(plan, split, ["region"], weight_column="weight") == tally_by(
        plan, table, ["region"], weight_column="weight"
    )
    nothing = running.session.range(0).selectExpr("'' AS `group`", "id AS report")
    assert running.files.tally_file(plan, nothing) == tally_file(plan, nothing.toArrow())


def test_records_of_several_questions(running: Running, tmp_path: Path):
    asked = yes_no_questionnaire(2, epsilon=1)
    asked = replace(asked, questions=(*asked.questions, Question(name="age", answers=(18, 65), public=True)))
    answers = {"q1": ["yes", "no"] * 300, "q2": ["no", "no", "yes"] * 200, "age": [18, 18, 65, 65] * 150}
    pa.csv.write_csv(pa.table(answers), tmp_path / "answers.csv")
    done = running.files.perturb_file(asked, tmp_path / "answers.csv", tmp_path / "reports")
    assert done.reports == 600
    table = running.session.read.parquet(str(tmp_path / "reports"))
    assert sorted(row["age"] for row in table.collect()) == sorted(answers["age"])
    assert {"block", "report"} <= set(table.columns)
    counted = running.files.tally_file(asked, table)
    assert counted == tally_file(asked, table.toArrow())
    assert counted.n_reports == 600


def test_raw_rows_are_recoded_as_on_one_machine(running: Running, tmp_path: Path):
    asked = recoded_plan()
    frame = running.session.createDataFrame(raw_table().to_pandas()).repartition(2)
    done = running.files.perturb_file(asked, frame, tmp_path / "reports")
    rows = running.session.read.parquet(str(tmp_path / "reports")).collect()
    assert read_as(asked, [row["group"] for row in rows], [row["report"] for row in rows]) == EXPECTED
    assert done.skipped == {"no answer": 1, "no group": 2}


def test_the_order_of_sorted_answers_is_gone_and_a_column_that_has_it_is_refused(running: Running, tmp_path: Path):
    """4,000 sorted answers in four tasks; in their order the reports of both halves differ by dozens of errors."""
    plan = make_plan(Prior.of({"yes": 0.5, "no": 0.5}), Survey("yes"), epsilon=2)
    frame = running.session.range(0, 4000, 1, 4).selectExpr("id", "if(id < 2000, 'yes', 'no') AS value")
    with pytest.raises(InputError, match="'id' beside the reports gives answers away"):
        running.files.perturb_file(plan, frame, tmp_path / "refused", keep=["id"])
    assert not (tmp_path / "refused").exists()
    done = running.files.perturb_file(plan, frame, tmp_path / "reports", keep=["id"], force=True)
    files = [pq.read_table(path) for path in sorted((tmp_path / "reports").glob("*.parquet"))]
    table = pa.concat_tables(files)
    assert (done.reports, sorted(table["id"].to_pylist())) == (4000, list(range(4000)))
    order, reports = table["id"].to_numpy(), table["report"].to_numpy()
    assert abs(np.mean(order[1:] > order[:-1]) - 0.5) < 6 / np.sqrt(12 * 4000)
    assert abs(np.corrcoef(order, np.arange(4000))[0, 1]) < 6 / np.sqrt(4000)
    sorted_again = reports[np.argsort(order)]
    assert abs(reports[:2000].mean() - reports[2000:].mean()) < 0.1
    assert abs(sorted_again[:2000].mean() - sorted_again[2000:].mean()) > 0.4


def test_files_mean_what_they_mean_on_one_machine(running: Running, plan: Plan, tmp_path: Path):
    """Quotes, blanks, texts that look like numbers, rows with too many cells: the same rows are skipped."""
    here = running.files
    cells = [
        'young,yes,"a ""b"", c"',
        "old, no ,007",
        f"old,{SECRET},x",
        ",yes,1",
        "young,,2",
        "old,no,3,4",
        "young,no,5",
    ]
    csv = tmp_path / "answers.csv"
    csv.write_text("\n".join(["group,value,zip", *cells]) + "\n")
    jsonl = tmp_path / "answers.jsonl"
    rows = [{"group": "old", "value": "yes", "zip": 7}, {"group": "old", "value": "no", "zip": "07"}, {"value": "yes"}]
    jsonl.write_text("\n".join([*map(json.dumps, rows), "{broken"]) + "\n")
    for source, kept in ((csv, ['a "b", c', "007", "5"]), (jsonl, ["7", "07"])):
        target = tmp_path / f"reports-of-{source.suffix[1:]}"
        done = here.perturb_file(plan, source, target, keep=["zip"], on_unknown="skip")
        table = pa.dataset.dataset(target, exclude_invalid_files=True).to_table()
        assert sorted(table["zip"].to_pylist()) == sorted(kept)
        once = perturb_file(plan, source, tmp_path / f"{source.stem}.parquet", keep=["zip"], on_unknown="skip")
        assert (done.rows, done.reports, sum(done.skipped.values())) == (once.rows, once.reports, done.rows - len(kept))
        assert sorted(pq.read_table(tmp_path / f"{source.stem}.parquet")["zip"].to_pylist()) == sorted(kept)
    semicolons = tmp_path / "semicolons.csv"
    semicolons.write_text("\ufeffgroup;value;a,b\nyoung;no;1,5\n")
    assert [tuple(row) for row in spark.read(running.session, semicolons, ["value", "a,b"]).collect()] == [
        ("young", "no", "1,5")
    ]
    with pytest.raises(BadRowsError, match="A part of the answers has 4 rows") as stopped:
        here.perturb_file(plan, csv, tmp_path / "stopped")
    assert SECRET not in str(stopped.value)
    assert not (tmp_path / "stopped").exists()
    for source, target, told in (
        (csv, tmp_path / "reports-of-csv", "is there already. Name a new folder"),
        (tmp_path / "nowhere.csv", tmp_path / "new", "Spark refuses: .*nowhere.csv"),
        (csv, "-", "Name it as the output"),
        ("-", tmp_path / "new", "Standard input is none"),
        (tmp_path / "a.arrow", tmp_path / "new", "Got arrow"),
    ):
        with pytest.raises(InputError, match=told):
            here.perturb_file(plan, source, target, on_unknown="skip")
    with pytest.raises(InputError, match="must have one column 'age'"):
        here.perturb_file(plan, csv, tmp_path / "new", column="age")
    latin = tmp_path / "latin.csv"
    latin.write_bytes("group,value\nyoung,yés\n".encode("latin-1"))
    with pytest.raises(InputError, match="not in UTF-8"):
        here.perturb_file(plan, latin, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_folders_are_counted_once_whole_and_by_the_names_of_their_partitions(
    running: Running, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    here, yes = running.files, Survey("yes")
    plan = make_plan({"1": Prior.of({"yes": 0.2, "no": 0.8}), "01": Prior.of({"yes": 0.4, "no": 0.6})}, yes, epsilon=1)
    drawn = perturb_table(plan, {"group": ["1", "01", "01"], "value": ["yes", "no", "no"]})
    for group in ("1", "01"):
        (tmp_path / f"reports/group={group}").mkdir(parents=True)
        mine = drawn.filter(pa.compute.equal(drawn["group"], group)).drop(["group"])
        name = "part-00000-0123abcd-0123-0123-0123-0123456789ab.c000.parquet"
        pq.write_table(mine.replace_schema_metadata(), tmp_path / f"reports/group={group}/{name}")
    counted = here.tally_file(plan, tmp_path / "reports")
    assert {name: counts.total for name, counts in counted.groups.items()} == {"1": 1, "01": 2}
    assert "no file '_SUCCESS': is it complete?" in capsys.readouterr().err
    assert running.session.conf.get(_session._INFERENCE) == "true"
    with pytest.raises(ValueError, match="counted the same reports"):
        counted.merge(here.tally_file(plan, tmp_path / "reports"))
    ours = tmp_path / "ours"
    ours.mkdir()
    pq.write_table(drawn.append_column("tacit_plan", pa.array([f"p{plan.hash[:8]}"] * 3)), ours / "part.parquet")
    with pytest.raises(InputError, match="ours has no file '_SUCCESS'"):
        here.tally_file(plan, ours)
    for whole in (ours / "part.parquet", ours / "*.parquet"):
        assert here.tally_file(plan, whole).n_reports == 3
    (ours / "_SUCCESS").touch()
    assert here.tally_file(plan, ours).n_reports == 3
    (ours / "_temporary").mkdir()
    with pytest.raises(InputError, match="has a folder '_temporary'"):
        here.tally_file(plan, ours)


def rounded(number: str) -> float:
    return float(f"{float(number):.10g}")


def test_the_commands_and_the_program_of_the_how_to_work(
    running: Running, plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """On this process's session; and through Spark Connect from another process, which has no Java."""
    plan.save(tmp_path / "plan.json")
    answers = {"group": ["young", "old"] * 500, "value": ["yes", "no", "no", "no"] * 250, "region": ["x", "y"] * 500}
    pq.write_table(pa.table(answers), tmp_path / "answers.parquet")
    monkeypatch.chdir(tmp_path)
    section = (ROOT / "docs/how-to.md").read_text().partition("## Move to a cluster")[2].partition("\n## ")[0]
    for told, here in (
        ("hdfs:///survey", str(tmp_path)),
        ("spark://master:7077", running.master),
        ("sc://gateway:15002", running.connect),
    ):
        assert told in section
        section = section.replace(told, here)
    perturb, tally, estimate = (line.split()[1:] for line in section.splitlines() if line.startswith("    tacit "))
    for words, said in ((perturb, {"reports": 1000}), (tally, {"n_reports": 1000})):
        ran = CliRunner().invoke(app, [*words, "--json"])
        assert ran.exit_code == 0, ran.stderr
        assert said.items() <= json.loads(ran.stdout).items()
    connected = [running.connect if word == running.master else word for word in perturb]
    connected[connected.index("-o") + 1] = str(tmp_path / "connected")
    for name in ("undone/_temporary", "unmarked"):
        (tmp_path / name).mkdir(parents=True)
        pq.write_table(
            pa.table({"group": ["old"], "region": ["x"], "report": [0], "tacit_plan": [""]}),
            tmp_path / name / "a.parquet",
        )
    remote = f"""
from tacit import Plan
from tacit.cli.everything import app
from tacit.files import InputError, spark
with spark.connected("{running.connect}") as files:
    plan = Plan.load("plan.json")
    for work, *names in (
        (files.tally_file, "undone"),
        (files.tally_file, "unmarked"),
        (files.perturb_file, "unmarked/a.parquet", "failed"),
    ):
        try:
            work(plan, *("{tmp_path}/" + name for name in names), **({{"column": "region"}} if names[1:] else {{}}))
        except InputError as error:
            print(error)
spark._engine.secret_bytes = lambda count: {KEY}
app({connected}, standalone_mode=False)
app({estimate} + ["--json"])
"""
    bare = {"PATH": "/nowhere", "HOME": str(tmp_path), "PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "ignore"}
    ran = subprocess.run([sys.executable, "-c", remote], capture_output=True, text=True, env=bare, check=False)
    assert ran.returncode == 0, ran.stderr
    for told in (
        "undone has a folder '_temporary'",
        "unmarked has no file '_SUCCESS'",
        "of the answers has 1 row",
        "1,000 reports of",
    ):
        assert told in ran.stdout
    assert not (tmp_path / "failed").exists()
    assert pq.read_table(next((tmp_path / "connected").glob("*.parquet"))).num_rows == 1000
    assert not key_in(running.logs)
    (part,) = (tmp_path / "reports").glob("*.parquet")
    again = CliRunner().invoke(app, ["estimate", "plan.json", str(part), "--by", "region", "--json"])
    # Sums of products can differ in the last digits between two processes.
    shown = ran.stdout[ran.stdout.index("{") :], again.stdout
    found, known = (json.loads(text, parse_float=rounded) for text in shown)
    assert found == known
    (program,) = re.findall("```python\n(.*?)```", section, re.DOTALL)
    written = StringIO()
    with redirect_stdout(written):
        exec(program, {"session": running.session, "plan": plan})
    assert written.getvalue() == "1000\n"
    refused = CliRunner().invoke(app, ["tally", "plan.json", str(part), "--master", running.master])
    assert refused.exit_code == 2
    assert "--engine spark" in refused.stderr


def test_a_planted_mechanism_is_drawn_and_counted(running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """`test_new_mechanism.py` takes it the rest of the way; the workers have it from `spark_daemon.py`."""
    asked = toy.planted(monkeypatch)
    value = "element_at(array('a', 'a', 'b', 'c'), int(id % 4 + 1)) AS value"
    frame = running.session.range(0, 4000, 1, 2).selectExpr(value)
    running.files.perturb_file(asked, frame, tmp_path / "reports")
    reports = running.session.read.parquet(str(tmp_path / "reports"))
    counted = running.files.tally_file(asked, reports)
    assert counted == tally_file(asked, reports.toArrow())
    for row, held in zip(estimate(asked, counted).rows, (2000, 1000, 1000, 0), strict=True):
        assert abs(row.estimate - held) < 6 * row.standard_error + 1


# -- a killed executor: last, for the one that takes its place is slow at first ---------------------------------------


def people(session: Any) -> Any:
    """Answers by number, the same whenever they are computed."""
    answer, group = "if(id % 3 = 0, 'yes', 'no') AS value", "if(id % 2 = 0, 'young', 'old') AS `group`"
    return session.range(0, ROWS, 1, PARTS).selectExpr("id", answer, group)


def noting(note: Path) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Rows as they come; the first attempt at the last part notes, after a block of it, on which executor it is."""

    def passed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        last, rows = TaskContext.get().partitionId() == PARTS - 1, 0
        for batch in batches:
            rows += batch.num_rows
            yield batch
            if last and rows > PART_ROWS * 2 // 3 and not note.exists():
                # This process has a daemon for its parent, which has the executor: they go together, as machines do.
                executor = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1]
                draft = note.with_suffix(".draft")
                draft.write_text(f"{executor} {os.getppid()} {os.getpid()}")
                draft.rename(note)

    return passed


@contextmanager
def killing(note: Path, when: Callable[[], bool]) -> Iterator[None]:
    """Kill, once, the executor that is noted, its Python and what it has on disk; fails if there was nobody to kill."""
    killed, done = [], threading.Event()

    def kill() -> None:
        while not (note.exists() and when()):
            if done.wait(0.002):
                return
        processes = list(map(int, note.read_text().split()))
        known = dict(line.partition("=")[::2] for line in Path(f"/proc/{processes[0]}/environ").read_text().split("\0"))
        for process in processes:
            os.kill(process, signal.SIGKILL)
            killed.append(process)
        for disk in Path(known["SPARK_EXECUTOR_DIRS"]).glob("blockmgr-*"):
            shutil.rmtree(disk)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    assert len(killed) == 3


def reports_by_number(folder: Path) -> pa.Table:
    table = pa.dataset.dataset(folder, exclude_invalid_files=True).to_table().sort_by("id")
    assert table["id"].to_numpy().tolist() == list(range(ROWS))
    return table


def test_a_killed_executor_neither_loses_nor_doubles_nor_redraws_a_report(
    running: Running, plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The task that is done again reports what an undisturbed run with the same key reports."""
    monkeypatch.setattr(_engine, "secret_bytes", lambda count: KEY)
    note, disturbed, calm = (tmp_path / name for name in ("note", "disturbed", "calm"))
    answers = people(running.session)

    def writing() -> bool:
        """Whether that executor writes reports: those that it drew itself are lost with it, and are drawn again."""
        opened = Path(f"/proc/{note.read_text().split()[0]}/fd").iterdir()
        return any("/_temporary/attempt_" in os.path.realpath(file) for file in opened)

    with killing(note, writing):
        done = running.files.perturb_file(
            plan, answers.mapInArrow(noting(note), answers.schema), disturbed, keep=["id"]
        )
    assert b'"Stage Attempt ID":1' in logged(running.logs)
    assert (done.rows, done.reports, done.skipped) == (ROWS, ROWS, {})
    assert (disturbed / "_SUCCESS").exists()
    assert not list(disturbed.glob("_temporary*"))
    running.files.perturb_file(plan, answers, calm, keep=["id"])
    expected = reports_by_number(calm)
    assert reports_by_number(disturbed).equals(expected)
    assert expected.column_names == ["group", "id", "report", "tacit_plan"]
    assert not key_in(running.logs)
