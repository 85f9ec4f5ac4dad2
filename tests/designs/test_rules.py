"""Other people's designs as their papers state them: probabilities, what reports tell, and what is refused."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tacit import Histogram, Prior
from tacit.designs import Rule, adopt, read_matrix, rules
from tacit.mechanism.table._reading import unbiased_weights

YES_NO = ["yes", "no"]
LETTERS = ["a", "b", "c", "d"]
#: A design, the probability of the first report under the first and the last value, by its paper, and its LDP ratio.
PAPERS = {
    name: (rule, Fraction(first), Fraction(last), ratio)
    for name, rule, first, last, ratio in (
        ("warner", rules.warner(YES_NO, "1/6"), "1/6", "5/6", 5),
        ("forced", rules.forced_response(YES_NO, {"yes": "1/6", "no": "1/12"}), "11/12", "1/6", 10),
        ("forced, four", rules.forced_response(LETTERS, dict.fromkeys(LETTERS, "1/16")), "13/16", "1/16", 13),
        ("unrelated", rules.unrelated_question(YES_NO, "2/3", "1/4"), "3/4", "1/12", 9),
        ("crosswise", rules.crosswise(YES_NO, "1/4"), "1/4", "3/4", 3),
        ("kuk", rules.kuk(YES_NO, [0.8, 0.2]), "4/5", "1/5", 4),
        ("kuk, three cards", rules.kuk(YES_NO, [0.8, 0.2], 3), "1/125", "64/125", 64),
        ("k-ary", rules.k_ary(LETTERS, truth=0.4), "2/5", "1/5", 2),
        ("symmetric unary", rules.symmetric_unary(LETTERS, flip=0.5), "27/256", "27/256", 9),
    )
}


@pytest.mark.parametrize("name", PAPERS)
def test_a_rule_is_what_its_paper_says_and_its_reports_determine_the_answers(name: str):
    rule, first, last, ratio = PAPERS[name]
    assert (rule.rows[0][0], rule.rows[-1][0]) == (first, last)
    group = adopt(rule, Histogram()).groups[0]
    # A probability is rounded to a multiple of 2^-64, and the level is that of what was rounded.
    assert abs(group.audit.ldp.ratio - ratio) < Fraction(1, 2**50)
    assert group.epsilon == Fraction(math.ceil(group.levels["ldp"] * 10**4), 10**4)
    t = unbiased_weights(group.mechanism, np.eye(len(rule.values)))
    np.testing.assert_allclose(group.mechanism.matrix @ t, np.eye(len(rule.values)), atol=1e-9)


def _variance_if_nobody_holds_it(rule: Rule) -> tuple[float, float]:
    """Of the count of the first value, per respondent who holds the last: as it is read here, and Wang's estimate."""
    group = adopt(rule, Histogram()).groups[0]
    t = unbiased_weights(group.mechanism, np.eye(len(rule.values)))[:, 0]
    last = group.mechanism.matrix[-1]
    supports = np.array([name == rule.reports[0] if len(name) == 1 else name[0] == "1" for name in rule.reports])
    own, other = (float(group.mechanism.matrix[x][supports].sum()) for x in (0, -1))
    pure = (supports - other) / (own - other)
    return float(last @ t**2 - (last @ t) ** 2), float(last @ pure**2 - (last @ pure) ** 2)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_variances_are_those_of_wang_and_others_2017(epsilon: float):
    """T. Wang, J. Blocki, N. Li, S. Jha, Locally Differentially Private Protocols for Frequency Estimation, USENIX
    Security 2017, section 4: direct encoding (d−2+e^ε)/(e^ε−1)², SUE e^(ε/2)/(e^(ε/2)−1)², OUE 4e^ε/(e^ε−1)².
    """
    e, root = math.exp(epsilon), math.exp(epsilon / 2)
    ours, theirs = _variance_if_nobody_holds_it(rules.k_ary(LETTERS, epsilon=epsilon))
    assert ours == pytest.approx((len(LETTERS) - 2 + e) / (e - 1) ** 2, rel=1e-6) == theirs
    for rule, formula in (
        (rules.symmetric_unary(LETTERS, epsilon=epsilon), root / (root - 1) ** 2),
        (rules.optimised_unary(LETTERS, epsilon), 4 * e / (e - 1) ** 2),
    ):
        ours, theirs = _variance_if_nobody_holds_it(rule)
        assert theirs == pytest.approx(formula, rel=1e-6)
        # That people hold one value each is used here, and does no harm.
        assert 0.5 * theirs < ours <= theirs * (1 + 1e-9)


@pytest.mark.parametrize("rule", [rules.optimised_unary(LETTERS, 1), rules.k_ary(LETTERS, epsilon=1)])
def test_a_level_that_a_design_was_made_for_is_stated_as_it_is(rule: Rule):
    assert adopt(rule, Histogram()).groups[0].epsilon == 1


def test_rare_reports_keep_their_digits():
    """Ten bits at ε = 5: the rarest report has probability 1e-20, below 2^-64."""
    rule = rules.optimised_unary([str(x) for x in range(10)], 5)
    group = adopt(rule, Histogram()).groups[0]
    assert group.mechanism.denominator > 2**64
    assert group.epsilon == 5


def test_a_matrix_is_read_from_a_file(tmp_path):
    path = tmp_path / "matrix.csv"
    path.write_text("value,hot,cold\nyes,0.7,0.3\nno,1/3,0.6667\n")
    rule = read_matrix(path)[None]
    assert rule.reports == ("hot", "cold")
    assert rule.rows[0] == (Fraction(7, 10), Fraction(3, 10))
    assert sum(rule.rows[1]) == 1
    path.write_text("group,value,hot,cold\nx,1,0.7,0.3\nx,2,0.2,0.8\ny,1,0.6,0.4\ny,2,0.1,0.9\n")
    found = read_matrix(path)
    assert {name: each.values for name, each in found.items()} == {"x": (1, 2), "y": (1, 2)}
    assert found["y"].rows[1] == (Fraction(1, 10), Fraction(9, 10))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("value,hot,cold\nyes,0.7,0.2\nno,0.5,0.5\n", "must sum to 1"),
        ("value,hot,cold\nyes,-0.1,1.1\nno,0.5,0.5\n", "between 0 and 1"),
        ("value,hot\nyes,1\nno,1\n", "at least two reports"),
        ("value,hot,cold\nyes,0.5\nno,0.5,0.5\n", "line 2: expected 3 cells"),
        ("answer,hot,cold\nyes,0.5,0.5\n", "column 'value'"),
        ("value,hot,cold,never\nyes,0.5,0.5,0\nno,0.2,0.8,0\n", "Nobody ever says 'never'"),
        ("value,hot,cold\nyes,0.5,0.5\nyes,0.2,0.8\n", "two different values"),
        ("group,value,hot,cold\nx,1,0.7,0.3\nx,2,0.2,0.8\ny,2,0.6,0.4\ny,1,0.1,0.9\n", "the same values"),
    ],
)
def test_a_matrix_that_is_none_is_refused(tmp_path, text: str, said: str):
    path = tmp_path / "matrix.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=said):
        read_matrix(path)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: rules.warner(["a", "b", "c"], 0.7), "two values"),
        (lambda: rules.warner(YES_NO, 1.5), "between 0 and 1"),
        (lambda: rules.forced_response(YES_NO, {"yes": 0.5, "no": 0.5}), "room for the truth"),
        (lambda: rules.forced_response(YES_NO, {"maybe": 0.5}), "not one of the values"),
        (lambda: rules.kuk(YES_NO, [0.8]), "share of red cards"),
        (lambda: rules.kuk(YES_NO, [0.8, 0.2], 0), "number of cards"),
        (lambda: rules.k_ary(YES_NO), "one of them"),
        (lambda: rules.symmetric_unary(YES_NO, 0.5, 1), "one of them"),
        (lambda: rules.unary(range(11), 0.5, 0.2), "2\\^11 reports"),
        (lambda: rules.crosswise(YES_NO, 0.25).written(["A", "B", "C"]), "has 2 reports"),
        (lambda: rules.crosswise(YES_NO, 0.25).written(["A", "A"]), "differ"),
    ],
)
def test_what_no_design_is_is_refused(make, said: str):
    with pytest.raises(ValueError, match=said):
        make()


def test_a_report_that_is_too_rare_for_integers_is_refused():
    """To round it to zero would say that it excludes an answer."""
    with pytest.raises(ValueError, match="too small for the integers"):
        adopt(rules.kuk(YES_NO, [0.8, 0.2], 200), Histogram())


def test_a_coin_that_decides_alone_is_refused():
    with pytest.raises(ValueError, match="do not tell the values apart"):
        adopt(rules.warner(YES_NO, 0.5), Histogram())


def test_priors_of_other_values_or_groups_are_refused():
    with pytest.raises(ValueError, match="values of the design"):
        adopt(rules.warner(YES_NO, 0.7), Histogram(), Prior.of({"no": 0.5, "yes": 0.5}))
    two = {"x": rules.warner(YES_NO, 0.7), "y": rules.warner(YES_NO, 0.8)}
    with pytest.raises(ValueError, match="the groups x, y, the priors z"):
        adopt(two, Histogram(), {"z": Prior.uniform(YES_NO)})
