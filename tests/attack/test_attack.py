"""A few seconds of `make attack`, and that its judge would find what it looks for."""

from __future__ import annotations

import copy
from fractions import Fraction

import numpy as np
import pytest

from attack.judge import at_most_exp, complaints
from attack.run import attack, plan_for


@pytest.mark.parametrize("seed", [1, 2])
def test_nasty_priors_at_random(seed):
    assert list(attack(seed, cases=60)) == []


def test_e_is_decided_on_both_sides():
    assert at_most_exp(Fraction("2.718281828459045"), Fraction(1))
    assert not at_most_exp(Fraction("2.718281828459046"), Fraction(1))


ASKED = {"weights": [5, 3, 2], "task": "histogram", "epsilon": "1", "aim": "mmse"}


def forged(change, **asked) -> list[str]:
    plan = copy.deepcopy(plan_for(ASKED | asked))
    change(plan["blocks"][0]["groups"][0])
    return list(complaints(plan, np.random.default_rng(0)))


def test_the_judge_finds_what_is_wrong():
    """Each of these is a named wrong plan."""
    assert not forged(lambda group: None)
    cells = lambda group: group["mechanism"]["rows"][0]  # noqa: E731
    assert "no distribution" in forged(lambda group: cells(group).__setitem__(0, "0"))[0]
    assert "more than e^9/10" in forged(lambda group: group.update(epsilon="9/10"))[0]
    assert "more than e^9/10" in forged(lambda group: group.update(epsilon="9/10"), error="0.1")[0]
    assert "odds" in forged(lambda group: group.update(ldp_cap="1/2"))[0]
    assert "the mse is" in forged(lambda group: group["certificate"].update(mse=0.1))[0]
    bound = {"lower_bound": 0.6}
    assert "more than the stated bound" in forged(lambda group: group["certificate"].update(bound))[0]
    bound = {"lower_bound": 9.0}
    told = forged(lambda group: group["certificate"].update(bound), aim="unbiased")
    assert any("below 9.0" in each for each in told)
