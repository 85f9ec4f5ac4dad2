"""A part of the coverage study: every interval keeps its level and lies within what is possible."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "benchmarks" / "intervals.py"


@pytest.fixture(scope="module")
def intervals():
    spec = importlib.util.spec_from_file_location("intervals_study", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("part", "least"),
    # Exact: the level itself, less a hair for single people. Simulated: three standard errors of the rounds below 95%.
    [
        ("yes_no", 0.947), ("changes", 0.95), ("sums", 0.85), ("histograms", 0.85), ("assisted", 0.885),
        ("rare", 0.885), ("personal", 0.85),
    ],
)  # fmt: skip
def test_intervals_keep_their_level_and_are_possible(intervals, part, least):
    cells = list(getattr(intervals, part)(True))
    assert min(cell.coverage for cell in cells) > least
    assert all(cell.possible for cell in cells)
    assert all(cell.error < 1.2 for cell in cells if cell.error is not None)


def test_small_areas_are_helped_by_the_others(intervals):
    (cell,) = intervals.areas(True)
    assert cell.coverage > 0.9
    assert cell.error < 0.8
