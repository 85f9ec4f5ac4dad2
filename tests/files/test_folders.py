"""Folders that Spark wrote, on one machine: read whole, or refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tacit import Plan, Prior, Survey, make_plan
from tacit.files import InputError, tally_by, tally_file
from tacit.files.tallies import sources_of_parts

NAMES = [f"part-0000{k}-0123abcd-0123-0123-0123-0123456789ab-c000.snappy.parquet" for k in range(3)]
PARTS = [
    {"report": [0, 1, 1], "region": ["n", "s", "n"]},
    {"report": [1], "region": ["s"]},
    {"report": [], "region": []},
]
SCHEMA = pa.schema([("report", pa.int64()), ("region", pa.string()), ("tacit_plan", pa.string())])


@pytest.fixture(scope="module")
def plan() -> Plan:
    return make_plan(Prior.of({"yes": 0.1, "no": 0.9}), Survey("yes"), epsilon=1)


@pytest.fixture
def folder(plan: Plan, tmp_path: Path) -> Path:
    made = tmp_path / "reports"
    made.mkdir()
    for name, cells in zip(NAMES, PARTS, strict=True):
        stamps = [f"p{plan.hash[:8]}"] * len(cells["report"])
        pq.write_table(pa.table({**cells, "tacit_plan": stamps}, schema=SCHEMA), made / name)
        (made / f".{name}.crc").write_bytes(b"crc")
    (made / "_SUCCESS").touch()
    return made


def test_a_folder_counts_as_all_its_files_and_is_known_again_by_their_names(plan: Plan, folder: Path) -> None:
    whole = tally_file(plan, folder)
    assert whole.groups == tally_file(plan, {"report": [0, 1, 1, 1]}).groups
    assert whole.sources == sources_of_parts([f"hdfs://name/reports/{name}" for name in NAMES])
    with pytest.raises(ValueError, match="counted the same reports"):
        whole.merge(tally_file(plan, folder))
    parts = tally_by(plan, str(folder), ["region"])
    assert {name: part.n_reports for (name,), part in parts.items()} == {"n": 2, "s": 2}
    other = make_plan(Prior.of({"yes": 0.2, "no": 0.8}), Survey("yes"), epsilon=1)
    with pytest.raises(InputError, match="reports of another plan"):
        tally_file(other, folder)


def test_an_incomplete_or_foreign_folder_is_refused(plan: Plan, folder: Path) -> None:
    with pytest.raises(InputError, match=r"is a folder\. Those that Spark wrote are read as parquet"):
        tally_file(plan, folder, format="csv")
    (folder / "region=n").mkdir()
    with pytest.raises(InputError, match=r"has folders in it\. Read it with --engine spark"):
        tally_file(plan, folder)
    (folder / "region=n").rmdir()
    pq.write_table(pa.table({"report": ["0"], "region": ["n"]}), folder / "part-9.parquet")
    with pytest.raises(InputError, match=r"part-9\.parquet has columns of other types than part-00000"):
        tally_file(plan, folder)
    (folder / "part-9.parquet").write_bytes(b"not parquet")
    with pytest.raises(InputError, match=r"part-9\.parquet cannot be read as parquet"):
        tally_file(plan, folder)
    (folder / "_temporary").mkdir()
    with pytest.raises(InputError, match="is not done, or was stopped"):
        tally_file(plan, folder)
    shutil.rmtree(folder / "_temporary")
    (folder / "_SUCCESS").unlink()
    with pytest.raises(InputError, match="not a complete one of Parquet files that Spark wrote"):
        tally_file(plan, folder)
