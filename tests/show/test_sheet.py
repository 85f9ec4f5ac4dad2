"""The sheet for a privacy officer: its numbers are those of the plan, and it says what is not promised."""

import math

import pytest

from tacit import Histogram, Prior, Survey, make_plan
from tacit.show import sentences
from tacit.show.questions import record_promise
from tacit.show.sheet import paragraph, sheet

from support.questions import yes_no_questionnaire


def test_it_states_the_levels_of_the_plan():
    plan = make_plan(Prior.of({"yes": 0.1, "no": 0.9}), Survey("yes"), 1, question="Are you <ill>?")
    text = sheet(plan, contact="Dr. Who", waves=3)
    odds = float(plan.groups[0].audit.ldp.ratio)
    after = 0.1 / 0.9 * odds / (1 + 0.1 / 0.9 * odds)
    assert f"{after * 100:.1f}"[:3] in text
    assert "&lt;ill&gt;" in text
    assert "<ill>" not in text
    assert "Dr. Who" in text
    # Two fresh reports: 3ε under LIP, or twice the LDP level where that is less; never 2ε.
    two, three = (min(math.exp(2 * k - 1), odds**k) for k in (2, 3))
    assert f"at most a factor of 2.72, two together by at most {math.ceil(two * 100) / 100:.2f}." in text
    assert f"3 waves with the same people: by at most {math.ceil(three * 100) / 100:.2f}." in text
    # Of those who answer no, some send a report that suggests yes; the channel's own integers say how many.
    yes, no = max(plan.groups[0].mechanism.matrix.T, key=lambda column: column[0] - column[1])
    assert f"about {round(100 * yes)} send a report that suggests “yes”" in text
    assert f"about {round(100 * no)} do so too" in text
    assert yes > no


def test_a_plan_without_a_prior_promises_it_to_all_and_several_questions_are_listed():
    ldp = make_plan(Prior.uniform(3), Histogram(), 1, notion="ldp")
    assert "holds for every belief" in sheet(ldp)
    assert "local differential privacy" in paragraph(ldp)
    several = sheet(yes_no_questionnaire(3, epsilon=1))
    assert "any combination of answers" in several
    assert several.count("<li>") == 3


def test_impossible_answers_are_named_as_outside_of_the_promise():
    plan = make_plan(Prior.of({"a": 0.5, "b": 0.5, "never": 0}), Histogram(), 1)
    assert "declares impossible" in sheet(plan)
    assert "never" in sheet(plan)
    assert "declares impossible" not in sheet(make_plan(Prior.uniform(2), Histogram(), 1))


@pytest.mark.parametrize("name", ["http:", "https:", "<script"])
def test_it_loads_nothing(name):
    assert name not in sheet(make_plan(Prior.uniform(2), Histogram(), 1))


def test_factors_and_levels_of_several_questions_are_rounded_up():
    """e^1.5 = 4.4817: a promise of at most 4.48 would not be kept."""
    plan = yes_no_questionnaire(2, epsilon=1.5)
    first, second = record_promise(plan)
    assert "at most a factor of 4.49;" in first
    assert first.endswith(sentences.promise(plan, None))
    assert float(second.rpartition("LDP level is ")[2].rstrip(".")) >= plan.groups[0].levels["ldp"]
