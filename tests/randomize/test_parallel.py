"""Randomizing in many threads at once, and in processes that fork afterwards, as pools, Dask and gunicorn do."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, get_ident

import numpy as np
import pytest

from tacit import Histogram, Prior, make_plan
from tacit.mechanism.kernels import n_threads
from tacit.plan import Plan
from tacit.randomize import Randomizer, SecureWords, SeededWords
from tacit.tally import keep

PEOPLE = 70_000
PLANS = {
    "table": lambda: make_plan(Prior.of({"a": 0.5, "b": 0.3, "c": 0.2}), Histogram(), 1),
    "core-tail": lambda: make_plan(Prior.uniform(30), Histogram(), 1, aim="mmse", method="core-tail"),
    "shuffled-circle": lambda: make_plan(Prior.uniform(30), Histogram(), 1, method="shuffled-circle"),
    "plane-circle": lambda: make_plan(Prior.uniform(30), Histogram(), 1),
}


def reports_of(plan: Plan) -> np.ndarray:
    """Everybody's reports, counted too, since counting has compiled loops of its own."""
    people = np.zeros(PEOPLE, dtype=np.int64)
    reports = Randomizer(plan).reports(people, people)
    assert keep(plan.groups[0].mechanism, reports).total == PEOPLE
    return reports


def test_threads_draw_at_once_each_from_its_own_stream():
    plan, start = PLANS["table"](), Barrier(4)
    randomizer, people, source = Randomizer(plan), np.zeros(PEOPLE, dtype=np.int64), SecureWords()

    def work(_: int) -> list[int]:
        start.wait()
        for _ in range(20):
            randomizer.reports(people, people)
        return source.draw(64, 64).tolist()

    with ThreadPoolExecutor(4) as threads:
        drawn = list(threads.map(work, range(4)))
    assert len(set().union(*drawn)) == 4 * 64


def test_one_stream_is_read_in_the_order_of_the_respondents(monkeypatch):
    """Seeded words repeat themselves whatever the cores; secure words are drawn by several threads at once."""
    plan, people = PLANS["table"](), np.zeros(PEOPLE, dtype=np.int64)
    table = plan.groups[0].mechanism.sampler([plan.groups[0].mechanism], [plan.groups[0].prior])
    words = SeededWords(1).draw(PEOPLE, table.word_bits)
    expected = [table.report_for(0, int(word)) for word in words]
    assert Randomizer(plan).reports(people, people, SeededWords(1)).tolist() == expected
    used = set()
    draw = SecureWords.draw
    monkeypatch.setattr(SecureWords, "draw", lambda *a: used.add(get_ident()) or draw(*a))
    Randomizer(plan).reports(people, people)
    assert (get_ident() in used) == (n_threads(PEOPLE) == 1)


def main() -> None:
    """What a program does that forks: everything once in the parent, then again in every worker."""
    plans = [make() for make in PLANS.values()]
    for plan in plans:
        reports_of(plan)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for plan in plans:
            one, other = pool.map_async(reports_of, [plan, plan], chunksize=1).get(timeout=60)
            assert (one != other).any()
        made = pool.apply_async(make_plan, (Prior.uniform(4), Histogram(), 1)).get(timeout=60)
        assert made.hash == make_plan(Prior.uniform(4), Histogram(), 1).hash


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork.")
def test_a_pool_that_forks_after_reports_works():
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    main()
