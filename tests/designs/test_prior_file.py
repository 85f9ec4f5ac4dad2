"""What a prior file may say: distributions, percentages, counts, zeros, names; and what it is worth."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tacit import GroupPrior, Prior, Survey, read_priors
from tacit.designs import Uncertainty
from tacit.designs.planning import make_task
from tacit.prior import Box


def read(tmp_path: Path, text: str, **options) -> list[GroupPrior]:
    path = tmp_path / "priors.csv"
    path.write_text(text, encoding="utf-8")
    return read_priors(path, **options)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("value,probability\na,.4\nb,.4\n", "sum to 1 .*They sum to 0.8"),
        ("value,probability\na,.2\nb,.7\n", "They sum to 0.9"),
        ("group,value,probability\nx,a,1.4\nx,b,.6\n", "group 'x' must sum to 1"),
        ("group,value,probability\nx,yes,.2\nx,no,.8\ny,yes,.2\n", "group 'y'.*They sum to 0.2"),
        ("value,probability,count\na,.4,1\nb,.6,1\n", "line 2: 'probability' and 'count' of the prior disagree"),
        ("value,probability\na,0.5\na,0.5\n", "stands twice"),
        ("value,count\na,-1\nb,2\n", "must not be negative"),
        ("value,count\na,1_0\nb,2\n", "must be a number"),
        ("value,count\na,1e400\nb,2\n", "line 2: 'count' must be below 2"),
        ("value,probability\na,.5\nb,1e-4000\nc,.5\n", "line 3: 'probability' must be a number with an exponent"),
        ("value,value,probability\na,b,1\n", "names the column 'value' twice"),
        ("value,count,count\na,1,2\n", "names the column 'count' twice"),
        ("value,count\na\0,1\nb,2\n", "line 2: a name must not hold control characters"),
        ("value,count\nb,2\n\u202ea,1\n", "line 3: a name must not hold"),
        ("group,value,count\nx\u2066,b,2\n", "line 2: a name must not hold"),
    ],
)
def test_what_is_no_distribution_is_refused_and_the_group_named(tmp_path, text, said):
    with pytest.raises(ValueError, match=said):
        read(tmp_path, text)


def test_percentages_and_rounded_shares_are_taken_and_said(tmp_path):
    (percent,) = read(tmp_path, "value,probability\na,33\nb,67\n")
    assert percent.prior == Prior.of({"a": 33, "b": 67})
    assert "percentages" in percent.notes[0]
    (thirds,) = read(tmp_path, "value,probability\na,.33\nb,.33\nc,.33\n")
    assert thirds.prior == Prior.uniform(["a", "b", "c"])
    assert "sums to 0.99" in thirds.notes[0]
    (signs,) = read(tmp_path, "value,probability\na,25%\nb,75%\n")
    assert signs.prior == Prior.of({"a": 1, "b": 3})


def test_both_columns_may_say_the_same(tmp_path):
    (group,) = read(tmp_path, "value,count,probability\na,1,.33\nb,2,.67\n")
    assert (group.prior, group.records) == (Prior.of({"a": 1, "b": 2}), 3)


def test_never_seen_is_not_impossible_unless_it_is_said(tmp_path):
    text = "group,value,count\nx,a,90\nx,b,10\nx,c,0\ny,a,50\ny,b,50\n"
    x, y = read(tmp_path, text)
    assert x.prior.weights == (180, 20, 1)
    assert y.prior.probability("c") == Fraction(1, 201)
    assert any("has no row for 'c'" in note for note in y.notes)
    assert any("never seen" in note and "--floor" in note for note in x.notes)
    assert x.prior.probability("a") / x.prior.probability("b") == 9
    floored, _ = read(tmp_path, text, floor="0.02")
    assert floored.prior.probability("c") == Fraction(1, 50)
    certain, _ = read(tmp_path, text, impossible=["c"])
    assert certain.prior.probability("c") == 0
    with pytest.raises(ValueError, match="has people who answered 'b'"):
        read(tmp_path, text, impossible=["b"])
    with pytest.raises(ValueError, match="is not in"):
        read(tmp_path, text, impossible=["q"])


def test_probabilities_of_zero_get_a_thousandth(tmp_path):
    (group,) = read(tmp_path, "value,probability\na,1\nb,0\n")
    assert group.prior.probability("b") == Fraction(1, 1001)
    (stated,) = read(tmp_path, "value,probability\na,1\nb,0\n", floor=0)
    assert stated.prior.probability("b") == 0


def test_names_stay_names_and_are_compared_in_one_form(tmp_path):
    (zips,) = read(tmp_path, "value,count\n01234,1\n1234,2\n")
    assert zips.prior.values == ("01234", "1234")
    (numbers,) = read(tmp_path, "value,count\n1,1\n2.50,2\n")
    assert numbers.prior.values == (1.0, 2.5)
    with pytest.raises(ValueError, match="stands twice"):
        read(tmp_path, "value,count\ncafé,1\ncafe\u0301,2\n")
    (blank,) = read(tmp_path, " value , count \n yes , 1\nno,1\n")
    assert blank.prior.values == ("yes", "no")


@pytest.mark.parametrize(
    ("file", "text", "meant"),
    [
        ("value,count\n01,1\n1,2\n", "01", "01"),
        ("value,count\n01,1\n1,2\n", "1", "1"),
        ("value,count\n1,1\n2.50,2\n", "2.50", 2.5),
        ("value,count\n1,1\n2.50,2\n", "2.5", 2.5),
        ("value,count\n1.0,1\n2.5,2\n", "1", 1.0),
        ("value,count\n1,1\n2,2\n", "1.0", 1),
        ("value,count\n0.1,1\n2,2\n", "1e-1", 0.1),
        ("value,count\ncafé,1\nno,2\n", " cafe\u0301", "café"),
    ],
)
def test_an_option_names_a_value_as_the_file_does(tmp_path, file, text, meant):
    groups = read(tmp_path, file)
    assert make_task("survey", [text], groups) == Survey(meant)
    with pytest.raises(ValueError, match=r"is not one of the prior's\. It has:"):
        make_task("survey", ["1_0"], groups)


@pytest.mark.parametrize("written", ["2.50", "2.5", "25e-1"])
def test_an_impossible_value_is_named_in_any_way_that_the_number_is_written(tmp_path, written):
    (group,) = read(tmp_path, "value,count\n1,1\n2.50,0\n", impossible=[written])
    assert group.prior.probability(2.5) == 0


def test_candidates_write_values_as_the_priors_do(tmp_path):
    """On their own, 1 and 2 would be numbers; beside 01 they are names."""
    other = tmp_path / "candidates.csv"
    other.write_text("candidate,value,probability\nold,1,.2\nold,2,.8\n")
    (group,) = read(tmp_path, "value,probability\n01,.1\n1,.4\n2,.5\n", candidates=other)
    assert [group.candidates[0].probability(value) for value in ("01", "1", "2")] == [0, Fraction(1, 5), Fraction(4, 5)]
    (group,) = read(tmp_path, "value,probability\n1.0,.5\n2.0,.5\n", candidates=other)
    assert group.candidates[0].probability(1) == Fraction(1, 5)


def test_smoothing_draws_small_groups_and_leaves_large_ones(tmp_path):
    rows = [f"g{k},yes,{10 + k % 3}\ng{k},no,{90 - k % 3}" for k in range(8)]
    text = "group,value,count\n" + "\n".join(rows) + "\nsmall,yes,3\nsmall,no,2\n"
    raw, smooth = read(tmp_path, text)[-1], read(tmp_path, text, smooth=True)[-1]
    assert raw.prior.probability("yes") == Fraction(3, 5)
    assert 0.1 < smooth.prior.probability("yes") < 0.2
    assert smooth.records == 5
    different = "group,value,count\na,yes,500\na,no,500\nb,yes,10\nb,no,990\nc,yes,900\nc,no,100\n"
    far = read(tmp_path, different, smooth=True)[0]
    assert float(far.prior.probability("yes")) == pytest.approx(0.5, abs=0.005)
    with pytest.raises(ValueError, match="needs counts and two groups"):
        read(tmp_path, "value,count\na,1\nb,2\n", smooth=True)


def test_candidates_belong_to_groups_and_values(tmp_path):
    other = tmp_path / "candidates.csv"
    other.write_text("candidate,value,probability\nold,yes,.2\nold,no,.8\nabroad,yes,.05\nabroad,no,.95\n")
    (group,) = read(tmp_path, "value,probability\nyes,.1\nno,.9\n", candidates=other)
    assert [each.probability("yes") for each in group.candidates] == [Fraction(1, 5), Fraction(1, 20)]
    assert Uncertainty(candidates=True).around(group).radius == Fraction(1, 10)
    other.write_text("candidate,value,probability\nold,maybe,1\n")
    with pytest.raises(ValueError, match="The value 'maybe' is not one of the prior's"):
        read(tmp_path, "value,probability\nyes,.1\nno,.9\n", candidates=other)


@pytest.mark.parametrize("options", [{}, {"floor": "0.05"}, {"smooth": True}])
def test_the_set_that_records_leave_plausible_holds_the_truth_whatever_was_done_to_the_prior(tmp_path, options):
    rng = np.random.default_rng(4)
    truth = np.array([0.98] + [0.02 / 19] * 19)
    held = 0
    for _ in range(40):
        counts = [rng.multinomial(100, truth), *rng.multinomial(3000, np.full(20, 0.05), size=3)]
        rows = [f"g{k},v{x:02d},{n}" for k, group in enumerate(counts) for x, n in enumerate(group)]
        group = read(tmp_path, "group,value,count\n" + "\n".join(rows) + "\n", **options)[0]
        prior_set = Uncertainty().around(group)
        whole = Prior(group.prior.values, [Fraction(str(p)) for p in truth.round(9)])
        if isinstance(prior_set, Box):
            shares = [whole.probability(value) for value in whole.values]
            held += all(a <= p <= b for a, p, b in zip(prior_set.low, shares, prior_set.high, strict=True))
        else:
            held += float(np.abs(group.prior.probabilities - whole.probabilities).sum() / 2) <= prior_set.radius
    assert held >= 38


def test_what_records_are_worth_comes_from_the_counts_and_needs_them(tmp_path):
    (counted,) = read(tmp_path, "value,count\nyes,100\nno,900\n")
    (few,) = read(tmp_path, "value,count\nyes,10\nno,90\n")
    assert Uncertainty().around(counted).radius < Uncertainty().around(few).radius < Fraction(1, 4)
    assert Uncertainty(confidence="0.9").around(few).radius < Uncertainty().around(few).radius
    (stated,) = read(tmp_path, "value,probability\nyes,.1\nno,.9\n")
    with pytest.raises(ValueError, match="not known how many records"):
        Uncertainty().around(stated)
    assert Uncertainty(records=1000).around(stated).radius == Uncertainty().around(counted).radius
