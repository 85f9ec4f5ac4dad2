"""Real changes: the figure's cells keep their level, and the reports are those of the plan."""

from __future__ import annotations

import numpy as np
import pytest

from studies import changed
from studies.figure import Options, Point
from tacit import Prior, Survey, make_plan

from support import places

CHANGE = changed.Change(
    "a change",
    Survey("yes"),
    {"young": Prior.of({"yes": 0.1, "no": 0.9}), "old": Prior.of({"yes": 0.3, "no": 0.7})},
    np.array([[400, 1600], [700, 1300]]),
)


def test_people_are_drawn_without_replacement_and_report_by_the_plan():
    rng = np.random.default_rng(1)
    drawn = changed._drawn(CHANGE.held, 1000, rng)
    assert drawn.sum() == 1000
    assert (drawn <= CHANGE.held).all()
    assert changed._drawn(CHANGE.held, 9999, rng) is CHANGE.held
    plan = make_plan(CHANGE.priors, CHANGE.task, 1)
    tally = changed._reports(plan, CHANGE.held, rng)
    tally.check(plan)
    for group, held in zip(plan.groups, CHANGE.held, strict=True):
        share = held / held.sum() @ group.mechanism.matrix
        kept = tally.groups[group.name]
        # Five standard errors of 2,000 reports.
        assert kept.counts / kept.total == pytest.approx(share, abs=5 * 0.5 / 2000**0.5)


def test_a_cell_has_every_way_and_tells_what_ldp_needs():
    points = changed._cells(CHANGE, 1.0, Options(small=True, data=places.DATA))
    names = {point.curve for point in points}
    assert names == {changed.ASSISTED, changed.UNBIASED, changed.MMSE, changed.LDP, changed.NEEDED}
    (needed,) = [point.y for point in points if point.curve == changed.NEEDED]
    assert 0.4 < needed < 0.9
    assert {point.y for point in points if point.curve == changed.UNBIASED and point.panel.endswith(changed.ERROR)} == {
        1.0
    }
    shown = changed.table(points)
    assert "| 500 |" in shown
    assert "a change, ε = 1" in shown


def test_the_remark_names_the_worst_cells():
    points = [
        Point(f"x: {what}", name, "corrected", 3.0, y)
        for what, name, y in (
            (changed.ERROR, changed.ASSISTED, 1.02), (changed.COVERAGE, changed.ASSISTED, 0.948),
            (changed.COVERAGE, changed.MMSE, 0.12),
        )
    ]  # fmt: skip
    said = changed._remark(points)
    assert "94.8%" in said
    assert "12.0%" in said
    assert "1.02" in said
