from __future__ import annotations

import math
import re
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tacit
from tacit import (
    Channel,
    Histogram,
    Matrix,
    PlanError,
    Prior,
    Sum,
    Survey,
    Task,
    make_plan,
    mse,
    prior_variance,
    unbiased_variance,
)
from tacit.task import TASKS

from support.strategies import channels, priors


def enumerated_mse(task, respondents, weights):
    """E|S − E[S|Y]|² by going through every combination of answers and reports."""
    total = 0.0
    for reports in product(*(range(channel.n_possible_reports) for channel, _ in respondents)):
        joint, squares, probability = 0.0, 0.0, 0.0
        for answers in product(*(range(len(prior)) for _, prior in respondents)):
            weight = math.prod(
                prior.probabilities[x] * channel.matrix[x, y]
                for (channel, prior), x, y in zip(respondents, answers, reports, strict=True)
            )
            value = sum(a * task.g(prior)[x] for a, (_, prior), x in zip(weights, respondents, answers, strict=True))
            joint = joint + weight * value
            squares += weight * float(value @ value)
            probability += weight
        if probability:
            total += squares - float(joint @ joint) / probability
    return total


@given(st.data())
@pytest.mark.parametrize("weights", [[1.0, 1.0], [2.0, -1.0]], ids=str)
@pytest.mark.parametrize("task", [Survey(0), Survey({0, 1}), Sum(), Histogram()])
def test_errors_add_up_as_enumeration_over_all_answers_and_reports_says(task, weights, data):
    """Proposition 2: errors of independent respondents add, whatever their priors and channels."""
    respondents = []
    for _ in range(2):
        prior = data.draw(priors(min_size=3, max_size=3))
        respondents.append((data.draw(channels(prior, 2)), prior))
    expected = enumerated_mse(task, respondents, weights)
    added = sum(a**2 * mse(channel, task) for a, (channel, _) in zip(weights, respondents, strict=True))
    assert added == pytest.approx(expected, abs=1e-12)


@given(st.data())
def test_mse_lies_between_zero_and_the_prior_variance(data):
    prior = data.draw(priors())
    channel = data.draw(channels(prior))
    for task in (Sum(), Histogram()):
        assert 0.0 <= mse(channel, task) <= prior_variance(prior, task) + 1e-12


def test_the_truth_has_no_error_and_a_constant_has_all_of_it():
    prior = Prior.of({1: 0.25, 2: 0.25, 4: 0.5})
    truth = Channel.from_weights(prior, np.eye(3, dtype=int).tolist())
    nothing = Channel.from_weights(prior, [[1]] * 3)
    for task in (Survey(4), Sum(), Histogram()):
        assert mse(truth, task) == pytest.approx(0.0, abs=1e-15)
        assert mse(nothing, task) == prior_variance(prior, task)
        assert unbiased_variance(truth, task) == pytest.approx(prior_variance(prior, task))
        assert math.isinf(unbiased_variance(nothing, task))


def test_a_survey_can_be_unbiased_where_the_histogram_cannot():
    """Two reports determine one indicator, not three counts."""
    prior = Prior.of({"a": 0.2, "b": 0.3, "c": 0.5})
    channel = Channel.from_weights(prior, [[3, 1], [1, 3], [1, 3]])
    assert unbiased_variance(channel, Survey("a")) < 10
    assert math.isinf(unbiased_variance(channel, Histogram()))


def test_unknown_survey_values_and_sums_of_names_are_refused():
    with pytest.raises(KeyError, match="Not a value"):
        Survey("x").g(Prior.uniform(["a", "b"]))
    with pytest.raises(TypeError, match="numeric"):
        Sum().g(Prior.uniform(["a", "b"]))


def test_no_other_file_asks_which_class_a_task_has():
    """A rule of the house: what others need to know of a task is a method or a property of it."""
    asks = re.compile(
        rf"isinstance\([^)]*\b({'|'.join(kind.__name__ for kind in TASKS.values())})\b|type\([\w.]*task\)"
    )
    assert asks.search("if isinstance(plan.task, Histogram | Survey):")
    assert asks.search("type(plan.task) is Sum")
    files = [path for path in Path(tacit.__file__).parent.rglob("*.py") if path.name != "task.py"]
    found = [f"{path}: {line}" for path in files for line in path.read_text().splitlines() if asks.search(line)]
    assert len(files) > 50
    assert not found


class Given(Task):
    """Whatever a script returns."""

    def __init__(self, rows):
        self.rows = rows

    def g(self, prior):
        return self.rows


@pytest.mark.parametrize("rows", [[True, False, True], [[1], [0], [1]], np.array([1, 0, 1]), ((1.0,), (0.0,), (1.0,))])
def test_g_may_be_anything_that_numpy_reads_as_numbers(rows):
    assert Given(rows).g(Prior.uniform(3)).tolist() == [[1.0], [0.0], [1.0]]
    assert prior_variance(Prior.uniform(3), Given(rows)) == pytest.approx(2 / 9)


@pytest.mark.parametrize("rows", [[1, 0], [[[1]], [[0]], [[1]]], [[], [], []], [1, math.nan, 0], [1, math.inf, 0]])
def test_g_of_another_shape_is_refused(rows):
    with pytest.raises(ValueError, match="needs a row of finite numbers for each of the 3 values"):
        Given(rows).g(Prior.uniform(3))


def test_matrices_are_equal_by_content_and_names_are_checked():
    one = Matrix([[0.1, 1], [0, "1/3"]], names=["a", "b"])
    assert one == Matrix([["1/10", 1.0], [0.0, Fraction(1, 3)]], names=("a", "b"))
    assert one != Matrix(one.rows, names=["a", "c"])
    assert Matrix([[1, 2]]).names == ("component 1", "component 2")
    for names in (["a"], ["a", "a"], ["a", " "], ["a", "b\u202e"]):
        with pytest.raises(ValueError, match="'names' must be"):
            Matrix(one.rows, names=names)
    with pytest.raises(ValueError, match="same number of columns"):
        Matrix([[1, 2], [3]])


def test_a_g_that_depends_on_probabilities_is_no_task_of_a_plan():
    class Rare(Task):
        def g(self, prior):
            return prior.probabilities < 0.3

    with pytest.raises(PlanError, match="depend on the values only"):
        make_plan({"a": Prior.of({1: 0.2, 2: 0.8}), "b": Prior.of({1: 0.7, 2: 0.3})}, Rare(), 1)


@pytest.mark.parametrize("kind", TASKS.values())
def test_the_tasks_of_plans_are_no_base_for_others(kind):
    """A plan would write such a task as its base, and everybody would read another g than was designed for."""
    with pytest.raises(TypeError, match=f"would store Clipped as {kind.__name__}"):
        type("Clipped", (kind,), {"g": lambda self, prior: np.minimum(prior.numbers, 3)})
