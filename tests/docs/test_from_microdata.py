"""The walk of docs/from-microdata.md, from a raw file to a page that one can forward."""

from __future__ import annotations

import csv
import os
import random
import re
import subprocess
from pathlib import Path

from studies.figure import Options
from studies.loaders import DataMissingError, find

from support.places import ROOT

WALK = (ROOT / "docs" / "from-microdata.md").read_text(encoding="utf-8")
ANSWERS = ("No", "Yes", "No, borderline diabetes", "Yes (during pregnancy)")
PEOPLE = 60_000


def write_people(path: Path) -> None:
    """BRFSS microdata where they are at hand, else made-up people."""
    people = random.Random(0)
    try:
        import pyarrow.parquet

        table = pyarrow.parquet.read_table(find("heart", Options()), columns=["Sex", "AgeCategory", "Diabetic"])
        rows = people.sample(list(zip(*(column.to_pylist() for column in table.columns), strict=True)), PEOPLE)
    except DataMissingError:
        rows = [
            (
                people.choice(["Female", "Male"]),
                people.choice(["18-24", "25-29", "60-64", "80 or older"]),
                people.choices(ANSWERS, [85, 12, 2, 1])[0],
            )
            for _ in range(PEOPLE)
        ]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("Sex", "AgeCategory", "Diabetic"), *rows])


def test_the_walk_ends_with_a_page_to_forward(tmp_path, tacit_on_path):
    write_people(tmp_path / "brfss.csv")
    env = os.environ | {"PATH": f"{tacit_on_path}:{os.environ['PATH']}", "COLUMNS": "100"}
    printed = []
    for block in re.findall(r"^```sh\n(.*?)^```", WALK, re.MULTILINE | re.DOTALL):
        ran = subprocess.run(["bash", "-e", "-c", block], cwd=tmp_path, capture_output=True, text=True, env=env)
        assert ran.returncode == 0, f"{block}\n{ran.stdout}{ran.stderr}"
        printed.append(ran.stdout)
    assert "20,000 of 20,000 rows are counted" in printed[0]
    page = (tmp_path / "diabetes.html").read_text(encoding="utf-8")
    for said in ("of 256,000,000 people have the answer “yes”", "<h2>By Sex</h2>", "<h2>Compared with last year</h2>",
                 "How this was found",
                 "What respondents were promised", "tacit difference plan.json reports.csv --by Sex"):  # fmt: skip
        assert said in page, said
    rows = csv.DictReader((tmp_path / "diabetes.csv").read_text(encoding="utf-8").splitlines())
    assert [row["part"] for row in rows] == ["everybody", "Female", "Male"]
