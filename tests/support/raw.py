"""A plan with a recoding, raw rows, and what they are; its reports say the answer almost surely."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from tacit import Plan, Prior
from tacit.plan import Group, RecodedColumn, Recoding
from tacit.task import Histogram

#: Raw cells with what they are: an answer and a group, no answer, or no group.
RAW = [
    ("1", "1", "17", "yes", "f / 0–17"), ("1.0", "2.0", "18.0", "yes", "m / 18 and more"),
    (" 2 ", "1", "64.5", "no", "f / 18 and more"), ("77", "2", "3", "no answer", "m / 0–17"),
    ("", "1", "0", "no answer", "f / 0–17"),
    ("88", "1", "40", None, "f / 18 and more"), ("2", "", "40", "no", None), ("2", "1", "999", "no", None),
]  # fmt: skip
SEXES, AGE = {"1": "f", "2": "m"}, {"edges": (0, 18, float("inf")), "labels": ("0–17", "18 and more")}


def recoded_plan() -> Plan:
    """A plan whose reports say the answer almost surely, so that engines can be compared row by row."""
    values, names = ("yes", "no", "no answer"), ["f / 0–17", "f / 18 and more", "m / 0–17", "m / 18 and more"]
    near = np.full((3, 3), 2.0**-40) + np.eye(3) * (1 - 3 * 2.0**-40)
    group = Plan.of(near, Prior.uniform(values), Histogram()).groups[0]
    answers = RecodedColumn(
        column="q7", map={"1": "yes", "2": "no"}, missing=("77",), missing_as="no answer", leave_out=("88",)
    )
    age = RecodedColumn(column="age", missing=("999",), **AGE)
    groups: tuple[Group, ...] = tuple(replace(group, name=name) for name in names)
    return Plan.of_groups(
        Histogram(), groups, recoding=Recoding((answers,), (RecodedColumn(column="sex", map=SEXES), age))
    )


def raw_table() -> pa.Table:
    columns = list(zip(*RAW, strict=True))
    return pa.table({"q7": columns[0], "sex": columns[1], "age": columns[2], "id": list(range(len(RAW)))})


def read_as(plan: Plan, groups, reports) -> list[tuple[str, str]]:
    return sorted(zip(groups, [str(plan.values[report]) for report in reports], strict=True))


EXPECTED = sorted((group, answer) for *_, answer, group in RAW if answer and group)
