"""The bound for balls of priors: vertices that are listed stay below what is proved, and so do real channels."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from tacit import Histogram, Prior
from tacit.designs._program.robust_lifts import RobustLifts
from tacit.designs._tiers import design_tiers
from tacit.designs.without_prior import ldp_variance_bound
from tacit.exact import budget
from tacit.prior import Ball

FILE = Path(__file__).parents[2] / "benchmarks" / "ball_bound.py"


@pytest.fixture(scope="module")
def study():
    spec = importlib.util.spec_from_file_location("ball_bound_study", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("seed", range(3))
def test_no_vertex_is_beyond_what_is_proved(study, monkeypatch, seed):
    monkeypatch.setattr(study, "_MOST_CELLS", 1000)
    rng = np.random.default_rng(seed)
    weights = sorted(rng.choice(range(1, 40), 6, replace=False).tolist(), reverse=True)
    prior, off, epsilon = Prior.of(weights), float(rng.choice([0.05, 0.1, 0.2])), float(rng.choice([1, 3]))
    w, mu = rng.random(6), rng.normal(size=6)
    lifts = RobustLifts(Ball(prior, str(off)), epsilon).vertices
    assert lifts is not None
    phi = (lifts - 1) ** 2 @ w - (lifts - 1) @ mu
    ball = study.Ball.around(prior.probabilities, epsilon, off)
    found = study.Weights.between(ball, w, mu, 1.0)
    proved = study._largest(ball, found, float(phi.max()))
    assert proved >= phi.max() * (1 - 1e-9)
    # Values are divisible there, so that the bound may be larger; not by much.
    assert proved < 3 * phi.max()
    # The named wrong answer: the lifts of a third of the budget.
    less = study.Ball.around(prior.probabilities, epsilon / 3, off)
    assert study._largest(less, found, float(phi.max())) < phi.max()


def test_a_channel_of_tiers_reaches_no_less_and_a_tempting_bound_claims_more(study, monkeypatch):
    for name, number in (("_GROUPS", 2), ("_ROUNDS", 2), ("_MOST_CELLS", 4000)):
        monkeypatch.setattr(study, name, number)
    prior = Prior(range(1000), [10**9 // (x + 1) for x in range(1000)])
    own = design_tiers(prior, 4, "0.1").unbiased_variance(Histogram())
    proved, relaxed = study.variance_bound(prior.probabilities, 4, 0.1)
    assert 0.4 * relaxed < proved <= relaxed * (1 + 1e-9)
    assert proved < own < 0.8 * ldp_variance_bound(1000, budget(4))
    # The named wrong answer: in a ball nothing varies more than the two levels of LDP at their best.
    ball = study.Ball.around(prior.probabilities, 4, 0.1)
    assert study._program(ball, np.array([(1 / (ball.e + 1), np.nan)])).variance > 1.2 * own


def test_wide_balls_are_refused(study):
    with pytest.raises(ValueError, match="radius"):
        study.variance_bound(np.full(20, 0.05), 1, 0.5)
