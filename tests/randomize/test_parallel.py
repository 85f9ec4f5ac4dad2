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
from tacit.designs import Search
from tacit.mechanism.sampling import in_threads, n_threads
from tacit.plan import Plan
from tacit.randomize import Randomizer, SecureWords, SeededWords

PEOPLE = 140_000
PLANS = {
    "table": lambda: make_plan(Prior.of({"a": 0.5, "b": 0.3, "c": 0.2}), Histogram(), 1),
    "bins": lambda: make_plan(Prior.uniform(30), Histogram(), 1, aim="mmse", search=Search(method="many-values")),
    "many-values": lambda: make_plan(Prior.of([60] + [1] * 39), Histogram(), 1, search=Search(method="many-values")),
}


def reports_of(plan: Plan) -> np.ndarray:
    """Everybody's reports, counted too, since counting has compiled loops of its own."""
    people = np.zeros(PEOPLE, dtype=np.int64)
    reports = Randomizer(plan).reports(people, people)
    assert plan.groups[0].mechanism.keep(reports).total == PEOPLE
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


@pytest.mark.parametrize("kind", PLANS)
def test_secure_words_are_drawn_by_several_threads_and_one_stream_by_this_one(kind, monkeypatch):
    """Seeded words repeat themselves whatever the cores."""
    randomizer, people = Randomizer(PLANS[kind]()), np.zeros(PEOPLE, dtype=np.int64)
    for source, threads in ((SecureWords, n_threads(PEOPLE)), (SeededWords, 1)):
        used, draw = set(), source.draw
        with monkeypatch.context() as patched:
            patched.setattr(source, "draw", lambda *a, u=used, d=draw: u.add(get_ident()) or d(*a))
            randomizer.reports(people, people, source() if source is SecureWords else source(1))
        assert get_ident() in used
        assert (len(used) > 1) == (threads > 1)


def test_a_failure_in_any_thread_is_raised_after_all_have_ended():
    ended = []

    def work(k: int, part: slice) -> None:
        ended.append(part)
        if part.stop == PEOPLE:
            raise RuntimeError("the last part")

    with pytest.raises(RuntimeError, match="the last part"):
        in_threads(PEOPLE, work)
    assert len(ended) == n_threads(PEOPLE)


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
